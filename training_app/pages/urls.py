"""Addresses of the home page, runs, models, live traffic, decisions and alarms."""

from django.urls import URLPattern, URLResolver, path

from training_app.pages.answering import archive_views, route_views
from training_app.pages.home import home_views
from training_app.pages.personal import personal_views
from training_app.pages.rollout import check_views, live_views, outcome_views
from training_app.pages.training import compare_views, rule_views, run_views, sweep_views
from training_app.pages.versions import case_views, model_views
from training_app.pages.watching import alarm_views, proposal_views

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home_views.home, name="home"),
    path("pools/sample/", home_views.sample_pool, name="sample_pool"),
    path("p/<slug:slug>/", home_views.pool_home, name="pool_home"),
    path("personal-data/", personal_views.personal_data, name="personal_data"),
    path("p/<slug:slug>/check/", check_views.check, name="check_answers"),
    path("p/<slug:slug>/decisions/live/", live_views.live, name="decisions_live"),
    path("p/<slug:slug>/decisions/outcomes/", live_views.outcomes, name="decisions_outcomes"),
    path("p/<slug:slug>/decisions/off-policy/", live_views.off_policy, name="decisions_off_policy"),
    path("p/<slug:slug>/settings/live/", live_views.settings, name="settings_live"),
    path("p/<slug:slug>/alarms/", alarm_views.alarm_list, name="alarms"),
    path("p/<slug:slug>/alarms/health/", alarm_views.health_page, name="health_page"),
    path("p/<slug:slug>/alarms/<int:alarm_id>/mute/", alarm_views.alarm_mute, name="alarm_mute"),
    path("p/<slug:slug>/proposals/", proposal_views.proposal_list, name="proposals"),
    path("p/<slug:slug>/drift/", alarm_views.drift_page, name="drift"),
    path("p/<slug:slug>/drift/look/", alarm_views.drift_look, name="drift_look"),
    path("p/<slug:slug>/drift/accept/", alarm_views.drift_accept, name="drift_accept"),
    path("p/<slug:slug>/settings/alarms/", alarm_views.receiver_list, name="settings_alarms"),
    path("p/<slug:slug>/settings/alarms/<int:receiver_id>/test/", alarm_views.receiver_test, name="receiver_test"),
    path(
        "p/<slug:slug>/settings/alarms/<int:receiver_id>/remove/", alarm_views.receiver_remove, name="receiver_remove"
    ),
    path(
        "p/<slug:slug>/settings/alarms/<int:receiver_id>/restore/",
        alarm_views.receiver_restore,
        name="receiver_restore",
    ),
    path("p/<slug:slug>/runs/", run_views.run_list, name="runs"),
    path("p/<slug:slug>/runs/new/", run_views.run_new, name="run_new"),
    path("p/<slug:slug>/runs/near/", run_views.run_near, name="run_near"),
    path("p/<slug:slug>/runs/compare/", compare_views.run_compare, name="run_compare"),
    path("p/<slug:slug>/runs/rules/", rule_views.rule_list, name="run_rules"),
    path("p/<slug:slug>/runs/rules/new/", rule_views.rule_edit, name="run_rule_new"),
    path("p/<slug:slug>/runs/rules/<int:rule_id>/", rule_views.rule_edit, name="run_rule"),
    path("p/<slug:slug>/runs/rules/<int:rule_id>/switch/", rule_views.rule_switch, name="run_rule_switch"),
    path("p/<slug:slug>/runs/rules/<int:rule_id>/delete/", rule_views.rule_delete, name="run_rule_delete"),
    path("p/<slug:slug>/runs/sweeps/", sweep_views.sweep_list, name="run_sweeps"),
    path("p/<slug:slug>/runs/sweeps/new/", sweep_views.sweep_new, name="run_sweep_new"),
    path("p/<slug:slug>/runs/sweeps/<int:sweep_id>/", sweep_views.sweep_detail, name="run_sweep"),
    path("p/<slug:slug>/runs/sweeps/<int:sweep_id>/cancel/", sweep_views.sweep_cancel, name="run_sweep_cancel"),
    path("p/<slug:slug>/runs/<int:run_id>/", run_views.run_detail, name="run"),
    path("p/<slug:slug>/runs/<int:run_id>/cancel/", run_views.run_cancel, name="run_cancel"),
    path("p/<slug:slug>/runs/<int:run_id>/relaunch/", run_views.run_relaunch, name="run_relaunch"),
    path("p/<slug:slug>/models/", model_views.model_list, name="models"),
    path("p/<slug:slug>/models/rollback/", model_views.model_rollback, name="model_rollback"),
    path("p/<slug:slug>/models/<int:version>/", model_views.model_detail, name="model"),
    path("p/<slug:slug>/models/<int:version>/approval/", model_views.model_approval, name="model_approval"),
    path("p/<slug:slug>/models/<int:version>/pin/", model_views.model_pin, name="model_pin"),
    path("p/<slug:slug>/models/<int:version>/promote/", model_views.model_promote, name="model_promote"),
    path("p/<slug:slug>/cases/", case_views.case_list, name="cases"),
    path("p/<slug:slug>/cases/new/", case_views.case_new, name="case_new"),
    path("p/<slug:slug>/cases/<int:case_id>/remove/", case_views.case_remove, name="case_remove"),
    path("p/<slug:slug>/playground/", route_views.playground, name="playground"),
    path("p/<slug:slug>/decisions/", route_views.decision_list, name="decisions"),
    path("p/<slug:slug>/decisions/archive/", archive_views.archived_decisions, name="decisions_archived"),
    path("p/<slug:slug>/decisions/<uuid:decision_id>/", route_views.decision_detail, name="decision"),
    path("p/<slug:slug>/decisions/<uuid:decision_id>/label/", outcome_views.label_decision, name="decision_label"),
    path("p/<slug:slug>/models/<int:version>/label/", outcome_views.label_error, name="model_label_error"),
]
