"""docs/security.md claims nothing without a test: each claim is a phrase of the page beside the tests that would fail without it."""

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent
PAGE = ROOT.parent / "docs" / "security.md"

#: A phrase of the page → the tests of its claim.
CLAIMS: dict[str, tuple[str, ...]] = {
    # Whom it defends against
    "see that other pools exist": ("test_a_key_sees_nothing_of_other_pools",),
    "label, and see their own work": ("test_a_labeler_finds_their_own_labels_and_no_others",),
    "train, promote, make keys or people": ("test_pages", "test_every_model_by_every_role"),
    "what the key's scopes allow, in the key's pools": ("test_every_address_has_a_row_and_every_row_an_address",),
    "work after its maker's account is closed": ("test_keys_stop_with_their_maker_and_come_back_with_them",),
    "change a superuser": ("test_an_admin_changes_nothing_of_a_superuser",),
    "change a superuser, the last admin": (
        "test_a_superuser_and_the_last_admin_stay",
        "test_nothing_of_a_superuser_changes",
    ),
    "a role in one pool opens that pool's": (
        "test_a_role_in_one_pool_counts",
        "test_roles_of_all_pools_and_of_one_add_up",
    ),
    # Signing in
    "Passwords are hashed with Django's PBKDF2": ("test_passwords_are_hashed_by_pbkdf2",),
    "No link is logged": ("test_the_queue_and_the_log_hold_no_link",),
    "key that `DEBUG` uses": ("test_debug_with_a_key_of_its_own_may_be_shown_to_others",),
    "People are invited; nobody can sign up": ("test_an_invited_person_sets_a_password_once_and_signs_in",),
    "weak ones are refused": ("test_a_weak_password_is_refused_with_the_reason",),
    "do the same work with and without an account": (
        "test_known_and_unknown_addresses_get_the_same_answer_for_the_same_work",
        "test_known_and_unknown_addresses_take_the_same_work",
    ),
    "count failures by network address": ("test_guessing_at_many_accounts_from_one_address_is_stopped",),
    "After 100 failures in an hour": ("test_many_addresses_together_are_slowed_and_a_known_browser_is_not",),
    "They work once, for": ("test_a_forgotten_password_is_set_anew_once",),
    "sessions end permanently": ("test_a_session_that_came_between_does_not_revive_either",),
    "their links set no password": ("test_the_link_of_a_deactivated_invitation_sets_no_password",),
    "`SECRET_KEY` must be long and varied": ("test_no_web_server_signs_with_a_key_that_can_be_guessed",),
    # The second factor and sessions
    "secrets are sealed under `SECRET_KEY`": ("test_what_is_stored_is_sealed",),
    "`SECOND_FACTOR_OIDC` is set": ("test_who_comes_by_the_provider_is_exempt_unless_the_setting_says_otherwise",),
    "Turning on a second factor ends the others": ("test_turning_it_on_ends_the_other_sessions",),
    "if several sessions send it at once": ("test_one_right_code_from_eight_sessions_at_once_uses_up_no_guess",),
    "is required between the password and the session": (
        "test_a_code_is_asked_for_after_the_password_and_signs_in_once",
    ),
    "It does not apply to API keys": ("test_api_keys_know_nothing_of_it",),
    "five wrong codes in five minutes": ("test_guesses_are_limited_for_each_person",),
    "ask for the password again": ("test_new_codes_end_the_old_ones_and_off_asks_for_the_password",),
    "each use of a recovery code, are in the audit trail": ("test_a_recovery_code_signs_in_once_and_is_told_of",),
    "An admin can reset it": ("test_admins_reset_it_and_it_is_audited",),
    "An admin can end all of a person's sessions": (
        "test_admins_end_all_sessions_of_a_person_and_closing_an_account_does",
    ),
    # Anonymous clients
    "deadline for its head": (
        "test_a_head_that_stays_partial_is_ended_and_an_idle_connection_too",
        "test_a_dripping_body_does_not_gain_time",
        "test_a_connection_whose_answer_is_not_read_is_dropped",
    ),
    "a longer one gets 431": ("test_a_head_over_the_limit_is_refused_with_431_and_one_below_it_is_read",),
    "kept in memory and never on disk": ("test_nothing_is_stored_of_what_nobody_known_uploads",),
    "offers an upgrade": ("test_a_request_that_offers_http_2_is_answered_as_any_other",),
    "so that no request is lost": ("test_no_client_that_keeps_its_connection_loses_a_request",),
    # Keys
    "A revoked key stops in every process": ("test_a_revoked_key_is_refused_once_the_stamp_was_read",),
    "the label records the key": ("test_the_audit_trail_says_whose_label_it_is_and_by_which_key",),
    "stored as SHA-256 and shown once": (
        "test_a_key_is_kept_only_as_its_digest",
        "test_a_new_keys_secret_is_shown_once_with_its_curl",
    ),
    "has two secrets until the old one expires": ("test_a_rotated_key_has_two_secrets_for_a_while_and_is_one_key",),
    "labels only for the person who created it": (
        "test_a_key_that_somebody_makes_labels_for_them_and_for_nobody_else",
    ),
    # Calls to other servers
    "Addresses contain no user or password": ("test_an_address_that_is_not_allowed_is_refused",),
    "Exempt are servers that the operator of the site has named": (
        "test_what_the_setting_lists",
        "test_the_server_of_the_settings_is_listed_with_its_port_alone",
    ),
    "A name is resolved once": ("test_the_name_is_resolved_once_and_the_checked_address_is_connected_to",),
    "Each of its addresses must be on the public internet": (
        "test_an_address_of_a_network_of_our_own_is_not_public",
        "test_one_private_address_among_public_ones_is_enough",
    ),
    "TLS and the Host header use the name": ("test_tls_and_the_host_header_keep_the_name",),
    "Redirects are not followed": ("test_a_redirect_is_an_answer_and_not_followed",),
    "Only `https`": ("test_an_address_that_is_not_allowed_is_refused",),
    "One deadline for all of a call": ("test_one_deadline_holds_for_the_whole_call",),
    "is sent only to `LLM_BASE_URL`": ("test_the_key_goes_to_the_configured_server_alone",),
    "stay with the server that they were entered for": ("test_a_providers_key_goes_to_no_other_address",),
    "can be reached by the LLM's calls alone": ("test_other_agents_may_not_call_its_server",),
    "quote a server's reply only": ("test_what_a_server_says_that_nobody_listed_is_not_told",),
    # Prompts
    "An unknown name is an error": ("test_what_is_wrong_is_said_with_its_name",),
    "can call only `range`": ("test_a_prompt_reaches_and_calls_nothing",),
    "200,000 steps": ("test_no_prompt_takes_long_or_grows_large",),
    # Files
    "No uploaded file is parsed in a web process": ("test_a_file_of_queries", "test_a_file_of_agents"),
    "has none of the server's environment": ("test_a_child_knows_no_secret_of_this_process",),
    "files it can write": ("test_a_child_writes_no_file",),
    "waiting for a place, and for a place and the file together": (
        "test_a_page_waits_so_long_in_all_however_often_the_child_speaks",
    ),
    "Pages that read a file have four threads of their own": (
        "test_pages_that_read_a_file_wait_in_threads_of_their_own",
    ),
    "anything behind them is reported": ("test_a_cell_far_to_the_right_is_named_and_not_walked_to",),
    "YAML must not contain references": ("test_yaml_with_references_is_refused",),
    "A file that exceeds a limit is refused with one sentence": (
        "test_what_a_file_does_to_its_child_ends_in_one_sentence",
    ),
    "a machine reads one file at a time for pages and one for jobs": (
        "test_so_many_children_at_a_time",
        "test_so_many_children_on_the_machine",
    ),
    "at a lower priority": ("test_a_child_gives_way_to_everything_else",),
    "A workbook can unpack to 512 MiB": (
        "test_a_table_of_shared_texts_that_unpacks_to_a_gigabyte_is_refused_unopened",
    ),
    "A sheet ends after a thousand empty rows": ("test_a_workbook_costs_what_it_holds_and_not_what_it_says",),
    "nothing is unpickled": ("test_a_pickle_under_the_name_of_safetensors_is_never_opened",),
    # Pages
    "Templates escape their values": ("test_what_people_typed_is_never_markup",),
    "Markdown of guidelines is cleaned by an allow-list": ("test_guidelines_cannot_carry_scripts",),
    "scripts come only from files of this site": (
        "test_every_page_says_where_its_scripts_come_from",
        "test_a_script_that_is_slipped_into_a_page_does_not_run",
    ),
    "any violation in its console fails them": ("test_every_page_with_a_name_can_be_used_by_everybody",),
    "No page can be framed": ("test_every_page_says_where_its_scripts_come_from",),
    "no access to the browser's devices": ("test_every_page_says_where_its_scripts_come_from",),
    "Cookies are `HttpOnly`, `SameSite=Lax`": ("test_no_script_and_no_other_site_gets_at_a_cookie",),
    "except on localhost, `Secure`; HSTS": ("test_outside_debug_the_safe_settings_hold",),
    # Four eyes
    "or the whole site by `FOUR_EYES`": ("test_a_setting_of_the_site_goes_for_every_pool",),
    "can require a second person for every promotion and canary": (
        "test_one_asks_and_another_approves",
        "test_nobody_approves_what_they_asked_for",
        "test_a_canary_answers_once_another_person_approves",
    ),
    "nobody can approve their own request with a key": ("test_the_api_asks_and_approves_as_the_keys_makers",),
    # Decisions and traffic elsewhere
    "Only ops of a pool export its decisions or decide its proposals": (
        "test_ops_of_one_pool_export_and_decide_in_it_alone",
        "test_a_key_of_one_pool_exports_and_decides_in_it_alone",
    ),
    "holds no column that is declared to hold words": ("test_without_text_no_column_holds_words",),
    "A webhook for unsure decisions is signed": (
        "test_a_decision_that_is_left_to_people_is_sent_signed_with_its_answer",
    ),
    "Its delivery stores the decision's id and no word": ("test_the_delivery_stores_the_id_and_no_word",),
    "what was deleted, erased or is redacted by then is not sent": (
        "test_what_is_gone_before_it_is_sent_is_not_sent",
        "test_a_rule_that_redacts_holds_for_what_waits",
    ),
    "A proposal stores ids of decisions and hashes of queries": ("test_a_proposal_stores_no_query",),
    "changes no agent until somebody accepts it": (
        "test_a_declined_one_does_not_return_for_the_same_queries",
        "test_the_page",
    ),
    "Days that no pool keeps any longer are dropped": (
        "test_days_that_no_pool_keeps_are_dropped_with_what_was_reported",
    ),
    "The clients send key and query to the address that they were given": (
        "test_clients_follow_no_redirect",
        "test_the_client_and_its_adapter",
    ),
    "The files for n8n and Dify contain no key": ("test_the_files_for_workflow_tools_contain_no_key",),
    # Privacy
    "redact e-mail addresses, phone numbers, cards, IBANs and its own patterns from texts": (
        "test_what_goes_and_what_stays",
        "test_only_the_chosen_kinds_and_own_patterns",
    ),
    "before they are stored": (
        "test_a_decision_answers_the_real_text_and_keeps_the_redacted",
        "test_imported_queries_their_other_keys_and_problems",
    ),
    "sets how long decisions and episodes are kept": ("test_each_pool_keeps_decisions_and_episodes_for_its_own_days",),
    "whose time grows only with the length of the text": ("test_a_pattern_that_would_hang_others_does_not_here",),
    # What is tested, packages
    "requests every address by every method": (
        "test_every_address_has_a_row_and_every_row_an_address",
        "test_every_address_of_the_admin_has_a_row_and_every_row_an_address",
    ),
    "with the SHA-256 of every file": ("test_each_package_has_hashes_and_no_address",),
    # By design
    "A queued job's arguments are keys of rows": ("test_the_queue_and_the_log_hold_no_link",),
    "not whether an address has an account": ("test_an_unknown_address_gets_no_mail",),
    "Ops of all pools can read every decision's text in every pool": (
        "test_ops_of_all_pools_read_decisions_of_every_pool",
    ),
    "ops of one pool only in that pool": ("test_ops_of_one_pool_see_its_decisions_alone",),
}


@cache
def names_of_tests() -> frozenset[str]:
    """The names of all tests."""
    return frozenset(
        name for path in ROOT.rglob("test_*.py") for name in re.findall(r"def (test_\w+)\(", path.read_text("utf-8"))
    )


@pytest.mark.any_database
@pytest.mark.parametrize("phrase", CLAIMS)
def test_each_claim_is_on_the_page_and_has_its_tests(phrase: str) -> None:
    page = " ".join(PAGE.read_text("utf-8").split())
    assert phrase in page
    assert [name for name in CLAIMS[phrase] if name not in names_of_tests()] == []


@pytest.mark.any_database
def test_each_part_of_the_page_has_claims() -> None:
    page = PAGE.read_text("utf-8")
    for title, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, flags=re.S | re.M):
        plain = " ".join(text.split())
        assert any(phrase in plain for phrase in CLAIMS), title


@pytest.mark.django_db
def test_ops_of_one_pool_see_its_decisions_alone(client) -> None:
    from django.contrib.auth.models import User

    from agents_app.models import Pool, PoolRole

    support = Pool.objects.create(slug="support", name="Support")
    Pool.objects.create(slug="other", name="Other")
    person = User.objects.create_user("olga")
    PoolRole.objects.create(user=person, pool=support, role="ops")
    client.force_login(person)
    assert client.get("/p/support/decisions/").status_code == 200
    assert client.get("/p/other/decisions/").status_code in (403, 404)
    assert client.get("/admin/training_app/decision/").status_code in (302, 403)


@pytest.mark.django_db
def test_ops_of_all_pools_read_decisions_of_every_pool(client) -> None:
    from django.contrib.auth.models import Group, User

    from agents_app.models import Pool
    from training_app.models import Decision, RouterModel

    person = User.objects.create_user("olga", is_staff=True)
    person.groups.add(Group.objects.get_or_create(name="ops")[0])
    client.force_login(person)
    for slug in ("support", "other"):
        pool = Pool.objects.create(slug=slug, name=slug.title())
        model = RouterModel.objects.create(pool=pool, version=1, artifact_bytes=0)
        Decision.objects.create(
            pool=pool, model=model, text=f"a letter to {slug}", agents=[], scores={}, confidence=1, steps=1,
            stop_reason="none", microseconds=1,
        )  # fmt: skip
        assert f"a letter to {slug}" in client.get(f"/p/{slug}/decisions/").content.decode()


@pytest.fixture
def pools_with_traffic(db) -> dict[str, Any]:
    """For each of two pools the id of an open proposal; each has a decision that names it."""
    from agents_app.models import Agent, Pool
    from training_app.models import AgentProposal, Decision

    made = {}
    for slug in ("support", "other"):
        pool = Pool.objects.create(slug=slug, name=slug.title(), next_agent_number=1)
        Agent.objects.create(pool=pool, number=0, code="BI", key="billing", name="Billing")
        Decision.objects.create(
            pool=pool,
            text=f"a letter to {slug}",
            agents=[],
            scores={},
            confidence=1,
            steps=1,
            stop_reason="none",
            microseconds=1,
        )
        made[slug] = AgentProposal.objects.create(pool=pool, kind="missing", name="Visas").pk
    return made


def undecided() -> set[str]:
    """The pools whose proposals are open and that have no agent but theirs."""
    from agents_app.models import Agent
    from training_app.models import AgentProposal

    grown = Agent.objects.exclude(name="Billing").values("pool")
    return set(AgentProposal.objects.filter(state="open").exclude(pool__in=grown).values_list("pool__slug", flat=True))


def test_ops_of_one_pool_export_and_decide_in_it_alone(client, pools_with_traffic) -> None:
    from django.contrib.auth.models import User

    from agents_app.models import Pool, PoolRole

    person = User.objects.create_user("olga")
    PoolRole.objects.create(user=person, pool=Pool.objects.get(slug="support"), role="ops")
    client.force_login(person)
    export = client.get("/p/support/decisions/?format=jsonl")
    assert b"a letter to support" in b"".join(export)
    assert client.get("/p/other/decisions/?format=jsonl").status_code in (403, 404)
    accepting = {"do": "accept", "name": "Visas", "description": "passports"}
    for slug, proposal in (("other", "other"), ("other", "support"), ("support", "other")):
        sent = accepting | {"proposal": pools_with_traffic[proposal]}
        assert client.post(f"/p/{slug}/proposals/", sent).status_code in (403, 404)
    assert undecided() == {"support", "other"}
    PoolRole.objects.update(role="reviewer")
    assert client.get("/p/support/decisions/?format=jsonl").status_code in (403, 404)
    assert client.post(
        "/p/support/proposals/", accepting | {"proposal": pools_with_traffic["support"]}
    ).status_code in (403, 404)
    assert undecided() == {"support", "other"}


def test_a_key_of_one_pool_exports_and_decides_in_it_alone(client, pools_with_traffic) -> None:
    from agents_app.keys import create_key
    from agents_app.models import Pool

    support = Pool.objects.get(slug="support")
    ops, route = ({"Authorization": f"Bearer {create_key(name, [support], [name])[1]}"} for name in ("ops", "route"))
    export = client.get("/api/decisions/export/?format=jsonl&pool=support", headers=ops)
    assert b"a letter to support" in b"".join(export)
    assert client.get("/api/decisions/export/?format=jsonl&pool=other", headers=ops).status_code in (403, 404)
    assert client.get("/api/decisions/export/?format=jsonl&pool=support", headers=route).status_code == 403
    for action, body in (("accept", {"name": "Visas"}), ("decline", {}), ("merge", {"into": 0})):
        for headers, slug, status in ((ops, "other", 404), (route, "support", 403), ({}, "support", 401)):
            address = f"/api/proposals/{pools_with_traffic[slug]}/{action}/"
            answer = client.post(address, body, headers=headers, content_type="application/json")
            assert answer.status_code == status, (action, slug)
    assert undecided() == {"support", "other"}


@pytest.mark.any_database
def test_clients_follow_no_redirect() -> None:
    import httpx

    sys.path.insert(0, str(ROOT.parent / "client" / "src"))
    from routerweb_client import Client, RouterwebError

    asked: list[str] = []

    def elsewhere(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return httpx.Response(307, headers={"Location": "https://elsewhere.example/api/route/"})

    client = Client("https://ours.example", "rw_key", transport=httpx.MockTransport(elsewhere))
    with pytest.raises(RouterwebError):
        client.route("where is it")
    assert set(asked) == {"ours.example"}


@pytest.mark.any_database
def test_the_files_for_workflow_tools_contain_no_key() -> None:
    n8n = json.loads((ROOT.parent / "client" / "n8n" / "routerweb.json").read_text("utf-8"))
    dify = (ROOT.parent / "client" / "dify" / "routerweb.yaml").read_text("utf-8")
    asking = [node for node in n8n["nodes"] if "/api/" in str(node["parameters"].get("url", ""))]
    assert len(asking) == 3
    for node in asking:
        assert node["parameters"]["authentication"] == "genericCredentialType"
        assert "credentials" not in node
    assert not re.search(r"rw_|bearer\s+\w{8}", json.dumps(n8n) + dify, re.I)


@pytest.mark.any_database
def test_passwords_are_hashed_by_pbkdf2() -> None:
    """The tests' own settings hash quickly: this asks the product's."""
    from django.conf import global_settings

    from routerweb import settings

    hashers = getattr(settings, "PASSWORD_HASHERS", global_settings.PASSWORD_HASHERS)
    assert hashers[0] == "django.contrib.auth.hashers.PBKDF2PasswordHasher"


#: How statements begin that promise nothing about the product.
PROMISE_NOTHING = (
    "`python -m benchmarks.http.stored` measures",
    "Security keys and passkeys are not offered",
    "Whoever can set a health check learns",
    "Rate limits (`429`)",
    "If no admin can sign in",
)


@pytest.mark.any_database
def test_each_item_of_a_list_has_a_claim_or_promises_nothing() -> None:
    items = re.findall(r"^- (.+?)(?=\n- |\n\n|\Z)", PAGE.read_text("utf-8"), flags=re.S | re.M)
    plain = [" ".join(item.split()) for item in items]
    bare = [one for one in plain if not one.startswith(PROMISE_NOTHING) and not any(phrase in one for phrase in CLAIMS)]
    assert len(plain) > 30
    assert bare == []
