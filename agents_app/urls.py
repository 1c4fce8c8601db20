"""Addresses of pools and agents, settings, people and passwords."""

from django.urls import URLPattern, URLResolver, path

from agents_app.views import agents, live, passwords, people, pools, settings, signin, sources

urlpatterns: list[URLPattern | URLResolver] = [
    path("pools/new/", agents.pool_new, name="pool_new"),
    path("pools/", pools.pools, name="pools"),
    path("p/<slug:slug>/settings/pool/archive/", pools.pool_archive, name="pool_archive"),
    path("p/<slug:slug>/settings/pool/delete/", pools.pool_delete, name="pool_delete"),
    path("p/<slug:slug>/settings/pool/restore/", pools.pool_restore, name="pool_restore"),
    path("p/<slug:slug>/agents/", agents.agents, name="agents"),
    path("p/<slug:slug>/agents/export/", agents.agents_export, name="agents_export"),
    path("p/<slug:slug>/agents/add/", agents.agent_add, name="agent_add"),
    path("p/<slug:slug>/agents/add/several/", agents.agents_add_several, name="agents_add_several"),
    path("p/<slug:slug>/agents/sources/", sources.agent_sources, name="agent_sources"),
    path("p/<slug:slug>/agents/sources/<int:source_id>/", sources.agent_source, name="agent_source"),
    path("p/<slug:slug>/agents/<int:number>/", agents.agent_edit, name="agent_edit"),
    path("p/<slug:slug>/agents/<int:number>/available/", agents.agent_available, name="agent_available"),
    path("p/<slug:slug>/agents/<int:number>/live/", live.agent_live, name="agent_live"),
    path("p/<slug:slug>/agents/<int:number>/retire/", agents.agent_retire, name="agent_retire"),
    path("p/<slug:slug>/agents/<int:number>/restore/", agents.agent_restore, name="agent_restore"),
    path("p/<slug:slug>/agents/<int:number>/merge/", agents.agent_merge, name="agent_merge"),
    path("p/<slug:slug>/settings/", settings.guidelines, name="settings"),
    path("p/<slug:slug>/settings/pool/", settings.pool_details, name="settings_pool"),
    path("p/<slug:slug>/settings/keys/", settings.api_keys, name="settings_keys"),
    path("p/<slug:slug>/settings/keys/<int:key_id>/revoke/", settings.key_revoke, name="key_revoke"),
    path("people/", people.people, name="people"),
    path("people/<int:user_id>/role/", people.person_role, name="person_role"),
    path("people/<int:user_id>/link/", people.person_link, name="person_link"),
    path("people/<int:user_id>/deactivate/", people.person_deactivate, name="person_deactivate"),
    path("people/<int:user_id>/activate/", people.person_activate, name="person_activate"),
    path("audit/", people.audit, name="audit"),
    path("login/", signin.sign_in, name="account_login"),
    path("login/deactivated/", signin.deactivated, name="account_inactive"),
    path("login/<slug:provider_id>/", signin.oidc, name="openid_connect_login"),
    path("login/<slug:provider_id>/callback/", signin.oidc_callback, name="openid_connect_callback"),
    path("logout/", signin.sign_out, name="account_logout"),
    path("password/reset/", passwords.reset, name="admin_password_reset"),
    path("password/reset/sent/", passwords.reset_sent, name="password_reset_done"),
    path("password/set/done/", passwords.set_done, name="password_reset_complete"),
    path("password/set/<uidb64>/<token>/", passwords.set_password, name="password_reset_confirm"),
]
