"""Supplies Schemathesis with credentials and existing values for the management API.

Schemathesis generates requests from the OpenAPI document. A generated identifier or token does not exist, so most
calls would fail at once. These hooks put existing values into three of four valid requests. A request that ends a
session or removes something gets an object that was created for it, so that later requests find the others
unchanged.
"""

import itertools
import json
import os
import threading
import time
import zlib

import schemathesis
from people import BASE, PASSWORD, Person, Site, fresh_address, receiver
from protected import ProtectedPerson
from schemathesis.core.parameters import ParameterLocation

GROUP = os.environ["RPCGATE_SCHEMA_GROUP"]
SITE = Site(os.environ["RPCGATE_SCHEMA_SHEET"])
SEEN = open(os.environ["RPCGATE_SCHEMA_SEEN"], "a", buffering=1)
LOCK = threading.RLock()

#: The owner of the objects in the calls of users and operators.
OWNER = SITE.person()
PROJECT = OWNER.project()
if GROUP == "user":
    OWNER.use(PROJECT)
WEBHOOK = OWNER.webhook(PROJECT, receiver())
#: Only users can try it again.
DELIVERY = OWNER.delivery(WEBHOOK) if GROUP == "user" else WEBHOOK
REQUEST = OWNER.request(PROJECT)
TICKET = OWNER.ticket()
FILE = OWNER.attachment(TICKET)
#: Another user, whose objects may be removed.
OTHER = SITE.person()
OTHER_TICKET = OTHER.ticket()
OTHER_WEBHOOK = OTHER.webhook(OTHER.project())
#: A user with a passkey as the second factor.
PROTECTED = ProtectedPerson(SITE, SITE.user())
#: A user with a passkey for log-ins only: many of them end the oldest session.
RETURNING = ProtectedPerson(SITE, SITE.user())
#: A user with invoices: one to read, and others for decisions about them.
CUSTOMER = SITE.customer()
INVOICE, *INVOICES = CUSTOMER.invoices()

CALLER = SITE.operator() if GROUP == "operator" else OWNER


def another():
    """Returns a new session of a caller of this kind."""
    return SITE.operator() if GROUP == "operator" else Person(SITE, OTHER.address)


#: The callers of operations that remove the caller's account, session or other objects.
ASKING = {
    "POST /auth/logout": another,
    "POST /auth/logout-all": SITE.person,
    "POST /auth/me/password": SITE.person,
    "PUT /auth/me/email": SITE.person,
    "POST /auth/me/confirmation": lambda: Person(SITE, SITE.applicant()),
    "DELETE /auth/sessions/{id}": lambda: OTHER,
}
if GROUP == "user":
    for gone in (
        "projects/{id}", "keys/{id}", "tenants/{id}/members/{user_id}", "tenants/{id}/invitations/{invitation_id}", "auth/tokens/{id}",
        "webhooks/{id}", "subscriptions/{id}",
    ):
        ASKING[f"DELETE /{gone}"] = lambda: OTHER
    for changed in ("PUT /tenants/{id}/members/{user_id}", "PUT /webhooks/{id}", "POST /webhooks/{id}/secret"):
        ASKING[changed] = lambda: OTHER
    for done in ("close", "reopen", "csat"):
        ASKING[f"POST /support/tickets/{{id}}/{done}"] = lambda: OTHER
    for paid in ("GET /tenants/{id}/invoices/{number}", "POST /tenants/{id}/billing/checkout"):
        ASKING[paid] = lambda: CUSTOMER
#: The operations of a user with a second factor. A generated factor is wrong, and a few wrong ones lock the
#: factors of their user: requests without supplied values come from a user without a factor.
WITH_FACTOR = {
    "POST /auth/mfa/recovery-codes", "POST /auth/mfa/totp/activate", "POST /auth/mfa/totp/disable",
    "POST /auth/passkeys/factor/start", "POST /auth/passkeys/register/start", "POST /auth/passkeys/register/finish",
    "DELETE /auth/passkeys/{id}",
} if GROUP == "user" else set()


def path(**values):
    """Returns the path parameters of an operation and their values; a function creates a value for each call from its
    caller."""
    return ParameterLocation.PATH, values


def body(whole=None, **values):
    """Returns the members of the body, or a function that creates the whole body."""
    return ParameterLocation.BODY, whole or values


def query(**values):
    """Returns all query parameters: generated ones rarely fit together."""
    return ParameterLocation.QUERY, values


def another_session(caller):
    session = Person(SITE, caller.address)
    return next(one["id"] for one in session.ask("GET", "/auth/sessions") if one["current"])


def invited(_):
    # Generated requests may use up the owner's limit of open invitations.
    _, address = OTHER.invitation()
    return SITE.mailed(address)


def weighed(caller):
    """Sets the weight of a method as an operator and returns the method."""
    caller.ask("PUT", "/operator/cu-weights/eth/eth_call", {"cu": 20})
    return "eth_call"


def limited(caller):
    """Returns a project with its own quota, of a new user: generated requests may disable the owner."""
    project = SITE.person().project()
    caller.ask("PUT", f"/operator/projects/{project}/quota", {"rps_limit": 9})
    return project


def proof(caller):
    """Returns a proof by password."""
    return {"current_password": caller.password}


def to_delete(caller):
    """Returns a tenant that the caller can delete, after a proof."""
    caller.ask("POST", "/auth/proof", proof(caller))
    return SITE.person().tenant


def proven(caller):
    """Returns the tenant of the caller, after a proof: some roles need one."""
    caller.ask("POST", "/auth/proof", proof(caller))
    return caller.tenant


def to_operate(caller):
    """Returns a user for an action of an operator, after a proof."""
    caller.ask("POST", "/auth/proof", proof(caller))
    return SITE.person().id


def discussed(caller):
    """Returns a ticket on which operators can comment: they reopen it if a generated request has closed it."""
    if caller.ask("GET", f"/operator/tickets/{TICKET}")["status"] == "closed":
        caller.ask("PUT", f"/operator/tickets/{TICKET}", {"status": "open"})
    return TICKET


def spare(caller, things, name, new):
    """Returns the identifier of one of `things` that was created for this. A generated condition often keeps it from
    being removed."""
    found = (one["id"] for one in caller.ask("GET", f"{things}?limit=1000") if one[name] == new[name])
    return next(found, None) or caller.ask("POST", things, new)["id"]


#: A contract that has not begun changes nothing, and disappears when it is ended.
CONTRACT = {"figures": {"limits": {"members": 9_000}}, "from": "2100-01-01T00:00:00Z"}
CONTRACTS, PLANS = f"/operator/tenants/{OTHER.tenant}/contracts", "/operator/custom-plans"


def contract(note):
    return lambda caller: spare(caller, CONTRACTS, "note", {**CONTRACT, "note": note})


def version(caller):
    """Returns the number of the newest version of the operators' settings."""
    caller.ask("PUT", "/operator/cu-weights/eth/eth_call", {"cu": 7})
    return caller.ask("GET", "/operator/config/history?source=settings&limit=1")[0]["number"]


def scheduled(caller):
    """Returns a plan change that takes effect in 300 days; creates one if necessary."""
    path = "/operator/plans/free"
    found = caller.ask("GET", path)["scheduled"]
    if not found:
        later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 300 * 86_400))
        caller.ask("PUT", path, {"members": 9_000, "from": later})
        found = caller.ask("GET", path)["scheduled"]
    return found[0]["id"]


def plan(name):
    new = {"name": name, "base_tier": "standard", "visibility": "visible", "figures": {}}
    return lambda caller: spare(caller, PLANS, "name", new)


numbers = itertools.count()


in_tenant, in_project, in_ticket = path(id=OWNER.tenant), path(id=PROJECT), path(id=TICKET)
given_factor = body(lambda caller: caller.factor())
grouped = itertools.cycle(["day,chain", "method,status", "hour,key,project,transport", "method,key,status,day"])
usage = query(group_by=lambda _: next(grouped), period="24h", limit=50)
to_settle = itertools.cycle(INVOICES)
to_pay = itertools.cycle([{"invoice": INVOICE}, {"tier": "premium"}])
of_caller = {"id": lambda caller: caller.tenant}
CONTAINERS = {ParameterLocation.PATH: "path_parameters", ParameterLocation.QUERY: "query", ParameterLocation.BODY: "body"}
#: Media types in addition to JSON.
ALSO_IN = {
    "GET /usage": "text/csv", "GET /tenants/{id}/usage": "text/csv", "GET /tenants/{id}/invoices/{number}": "text/html",
}
#: Values with which operations succeed.
VALUES = {
    "POST /auth/register": [body(email=lambda _: fresh_address(), challenge=lambda _: SITE.solution(), name="Ada")],
    "POST /auth/confirm": [body(token=lambda _: SITE.mailed(SITE.applicant()))],
    "POST /auth/invitation": [body(token=invited, name="Ada")],
    "POST /auth/login": [body(email=OWNER.address, password=PASSWORD)],
    "POST /auth/refresh": [body(refresh_token=lambda _: Person(SITE, OTHER.address).refresh_token)],
    "PUT /auth/me": [body(name="Ada")],
    "POST /auth/me/password": [body(current_password=PASSWORD)],
    "POST /auth/password/reset": [body(token=lambda _: SITE.forgotten(SITE.person().address), password=PASSWORD)],
    "PUT /auth/me/email": [body(email=lambda _: fresh_address(), current_password=PASSWORD)],
    "DELETE /auth/sessions/{id}": [path(id=another_session)],
    "POST /auth/tokens": [body(scopes=["read"], current_password=lambda caller: caller.password)],
    "DELETE /auth/tokens/{id}": [path(id=lambda caller: caller.access_token())],
    "POST /auth/mfa/recovery-codes": [given_factor],
    "POST /auth/proof": [body(proof)],
    "POST /auth/mfa/totp/enroll": [body(proof)],
    "POST /auth/mfa/totp/activate": [body(lambda caller: caller.activation())],
    "POST /auth/mfa/totp/disable": [body(lambda caller: caller.deactivation())],
    "POST /auth/mfa/verify": [body(lambda _: RETURNING.second_step())],
    "POST /auth/passkeys/login/start": [body(mfa_token=lambda _: RETURNING.pending_log_in())],
    "POST /auth/passkeys/login/finish": [body(lambda _: RETURNING.log_in())],
    "POST /auth/passkeys/register/start": [given_factor],
    "POST /auth/passkeys/register/finish": [body(lambda caller: caller.another_registration())],
    "DELETE /auth/passkeys/{id}": [path(id=lambda caller: caller.further_passkey()), given_factor],
    "DELETE /keys/{id}": [path(id=lambda caller: caller.key(caller.project())[0])],
    "GET /tenants/{id}": [in_tenant],
    "PUT /tenants/{id}": [in_tenant, body(name="Of the tests")],
    "GET /usage": [usage],
    "GET /tenants/{id}/usage": [in_tenant, usage],
    "GET /tenants/{id}/mfa": [in_tenant],
    "PUT /tenants/{id}/mfa": [path(id=proven)],
    "GET /tenants/{id}/billing": [in_tenant],
    "GET /tenants/{id}/invoices": [in_tenant],
    "GET /tenants/{id}/invoices/{number}": [path(number=INVOICE, **of_caller)],
    "POST /tenants/{id}/billing/checkout": [path(**of_caller), body(lambda _: next(to_pay))],
    "GET /tenants/{id}/members": [in_tenant],
    "GET /tenants/{id}/members/{user_id}": [path(id=OWNER.tenant, user_id=OWNER.id)],
    "PUT /tenants/{id}/members/{user_id}": [path(user_id=lambda caller: caller.colleague(), id=proven)],
    "DELETE /tenants/{id}/members/{user_id}": [path(user_id=lambda caller: caller.colleague(), **of_caller)],
    "GET /tenants/{id}/invitations": [in_tenant],
    "POST /tenants/{id}/invitations": [path(id=proven), body(email=lambda _: fresh_address())],
    "DELETE /tenants/{id}/invitations/{invitation_id}": [
        path(invitation_id=lambda caller: caller.invitation()[0], **of_caller)
    ],
    "GET /tenants/{tenant_id}/projects": [path(tenant_id=OWNER.tenant)],
    "POST /tenants/{tenant_id}/projects": [path(tenant_id=OWNER.tenant), body(name="Of the tests")],
    "GET /projects/{id}": [in_project],
    "PUT /projects/{id}": [in_project, body(name="Of the tests", allowed_methods=["eth_call"])],
    "DELETE /projects/{id}": [path(id=lambda caller: caller.project())],
    "GET /projects/{id}/quota": [in_project],
    "GET /projects/{id}/usage": [in_project],
    "GET /projects/{id}/usage-chart": [in_project, query(period="7d", interval="day", chain="eth")],
    "GET /projects/{id}/metrics": [in_project, query(period="today", chain="eth")],
    "GET /projects/{project_id}/keys": [path(project_id=PROJECT)],
    "POST /projects/{project_id}/keys": [path(project_id=PROJECT), body(description="of the tests", chains=["eth"])],
    "GET /explain/{request_id}": [path(request_id=REQUEST)],
    "GET /projects/{id}/events": [in_project, query(chain="eth", limit=10)],
    "GET /projects/{project_id}/webhooks": [path(project_id=PROJECT)],
    "POST /projects/{project_id}/webhooks": [path(project_id=PROJECT), body(url="https://hooks.example/")],
    "GET /webhooks/{id}": [path(id=WEBHOOK)],
    "PUT /webhooks/{id}": [path(id=OTHER_WEBHOOK), body(url="https://hooks.example/")],
    "DELETE /webhooks/{id}": [path(id=lambda caller: caller.webhook(caller.project()))],
    "POST /webhooks/{id}/secret": [path(id=OTHER_WEBHOOK)],
    "POST /webhooks/{id}/test": [path(id=WEBHOOK)],
    "POST /webhooks/{id}/replay": [
        path(id=WEBHOOK),
        body(**{"from": "2026-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}),
    ],
    "GET /webhooks/{endpoint_id}/subscriptions": [path(endpoint_id=WEBHOOK)],
    "POST /webhooks/{endpoint_id}/subscriptions": [
        path(endpoint_id=WEBHOOK),
        body(chain="eth", event_type="health", filter={"phase": "Degraded"}, confirmations=0),
    ],
    "DELETE /subscriptions/{id}": [path(id=lambda caller: caller.subscription(OTHER_WEBHOOK))],
    "GET /webhooks/{id}/deliveries": [path(id=WEBHOOK), query(status="delivered", limit=10)],
    "GET /deliveries/{id}": [path(id=DELIVERY)],
    "POST /deliveries/{id}/retry": [path(id=DELIVERY)],
    "POST /limit-requests": [body(reason="more calls", requested_tier="premium", requested_plan=None)],
    "POST /notifications/{id}/read": [path(id=lambda _: OWNER.notification())],
    **{
        f"GET /{whose}/tickets/{{id}}{part}": [path(id=TICKET, attachment_id=FILE) if "{" in part else in_ticket]
        for whose in ("support", "operator")
        for part in ("", "/comments", "/attachments", "/attachments/{attachment_id}")
    },
    "POST /support/tickets/{id}/comments": [in_ticket, body(text="Because.")],
    "POST /support/tickets/{id}/attachments": [in_ticket, body(lambda _: b"of the tests")],
    "POST /support/tickets/{id}/close": [path(id=lambda caller: caller.open_ticket())],
    "POST /support/tickets/{id}/reopen": [path(id=lambda caller: caller.closed_ticket())],
    "POST /support/tickets/{id}/csat": [path(id=lambda caller: caller.closed_ticket()), body(text="Good.")],
    "PUT /operator/tickets/{id}": [path(id=OTHER_TICKET)],
    "POST /operator/tickets/{id}/comments": [path(id=discussed), body(text="Because.")],
    "POST /operator/tickets/{id}/attachments": [path(id=discussed), body(lambda _: b"of the tests")],
    "GET /operator/invoices/{number}": [path(number=INVOICE)],
    "PUT /operator/invoices/{number}": [path(number=lambda _: next(to_settle)), body(note="of the tests")],
    "POST /operator/invoices/{number}/credit-notes": [path(number=INVOICE), body(cents=1, reason="of the tests")],
    "GET /operator/chains/{chain}": [path(chain="eth")],
    "PUT /operator/chains/{chain}": [path(chain="doge")],
    "PUT /operator/chains/{chain}/nodes": [path(chain="doge"), body(node="https://node.example/", drained=False)],
    "GET /operator/cu-weights/{chain}/{method}": [path(chain="eth", method="eth_call")],
    "PUT /operator/cu-weights/{chain}/{method}": [path(chain="eth", method="eth_call")],
    "DELETE /operator/cu-weights/{chain}/{method}": [path(chain="eth", method=weighed)],
    "GET /operator/plans/{tier}": [path(tier="free")],
    "PUT /operator/plans/{tier}": [path(tier="free"), body(price_per_cu=0.5)],
    "DELETE /operator/plans/{tier}/changes/{id}": [path(tier="free", id=scheduled)],
    **{
        f"POST /operator/users/{{id}}/{action}": [path(id=to_operate)]
        for action in ("unlock", "reset", "disable", "enable")
    },
    "POST /operator/users/{id}/remove-factors": [
        path(id=lambda _: ProtectedPerson(SITE, SITE.user()).id),
        body(reason="of the tests", current_password=lambda caller: caller.password),
    ],
    "GET /operator/projects/{id}/quota": [in_project],
    "PUT /operator/projects/{id}/quota": [in_project],
    "DELETE /operator/projects/{id}/quota": [path(id=limited)],
    "GET /operator/tenants/{id}": [in_tenant],
    "PUT /operator/tenants/{id}": [path(id=OTHER.tenant), body(custom_plan_id=None, tier="enterprise")],
    "DELETE /operator/tenants/{id}": [path(id=to_delete)],
    "GET /tenants/{id}/contracts": [in_tenant],
    "GET /operator/tenants/{id}/contracts": [path(id=OTHER.tenant)],
    "POST /operator/tenants/{id}/contracts": [
        path(id=lambda _: SITE.person().tenant),
        body(until="2100-02-01T00:00:00Z", **CONTRACT),
    ],
    "GET /operator/tenants/{id}/contracts/{contract_id}": [path(id=OTHER.tenant, contract_id=contract("kept"))],
    "DELETE /operator/tenants/{id}/contracts/{contract_id}": [path(id=OTHER.tenant, contract_id=contract("to end"))],
    "PUT /operator/tenants/{id}/contracts/{contract_id}": [
        path(id=OTHER.tenant, contract_id=contract("kept")),
        body(until="2100-02-01T00:00:00Z"),
    ],
    "POST /operator/custom-plans": [body(name=lambda _: f"made-{next(numbers)}", base_tier="premium", figures={})],
    "GET /operator/custom-plans/{id}": [path(id=plan("kept"))],
    "GET /operator/config/history/{number}": [path(number=version)],
    "GET /operator/config/history/{number}/changes": [path(number=version)],
    "PUT /operator/custom-plans/{id}": [path(id=plan("kept")), body(name="kept", figures={})],
    "DELETE /operator/custom-plans/{id}": [path(id=plan("to-delete"))],
    "PUT /operator/limit-requests/{id}": [path(id=lambda _: SITE.person().limit_request())],
}


# The operations that have succeeded.
succeeded = set()


def label(case):
    return f"{case.method.upper()} {case.operation.path.removeprefix(BASE)}"


def number(case):
    """Returns the same random number for the same request."""
    return zlib.crc32(repr((case.path_parameters, case.query, case.body)).encode(errors="replace"))


def is_left(name, case):
    """Reports whether a request is sent as it was generated: one of four, once the operation has succeeded with
    existing values.

    Generated requests differ between runs, even with the same seed, because the answer times of the service differ.
    """
    return name in succeeded and number(case) % 4 == 0


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is None:  # A probe of Schemathesis, not a test.
        return
    try:
        with LOCK:
            prepare(label(case), case)
    except Exception as error:  # Schemathesis would not report it.
        SEEN.write(json.dumps({"problem": f"before {label(case)}: {error!r}"}) + "\n")


def prepare(name, case):
    is_open = not case.operation.definition.raw["security"]
    if GROUP == "anonymous" and not is_open:
        return
    # Nothing is generated for some operations: their requests are all equal.
    is_supplied = name not in VALUES or not is_left(name, case)
    if is_open:
        caller = CALLER
    elif name in WITH_FACTOR and is_supplied:
        caller = PROTECTED
    else:
        caller = ASKING.get(name, lambda: CALLER)()
    if not is_open:
        case.headers = {**(case.headers or {}), "authorization": f"Bearer {caller.token}"}
    if name in ALSO_IN and number(case) % 3 == 0:
        case.headers = {**(case.headers or {}), "accept": ALSO_IN[name]}
    is_of_new_user = name in ("POST /auth/me/password", "PUT /auth/me/email")
    if not is_of_new_user and isinstance(case.body, dict) and isinstance(case.body.get("current_password"), str):
        # A few wrong passwords lock the account, which other requests need.
        case.body["current_password"] = caller.password
    # Only operators use the operator operations, and only users the others: other requests stay unchanged and are
    # refused.
    is_theirs = is_open or name in ASKING or (" /operator/" in name) == (GROUP == "operator")
    if name == "PUT /operator/plans/{tier}" and isinstance(case.body, dict):
        # Objects that plans limit are still created, even by a caller that was moved to another plan.
        limits = {"projects", "keys_per_project", "members", "webhooks_per_project", "subscriptions_per_webhook"}
        for count in limits & case.body.keys():
            if type(case.body[count]) is int and 0 <= case.body[count] < 1_000:
                case.body[count] += 1_000
    if not is_theirs or not is_supplied:
        return
    for place, values in VALUES.get(name, []):
        container = getattr(case, CONTAINERS[place])
        if case.meta.is_negative_at(place):
            continue
        if callable(values):
            setattr(case, CONTAINERS[place], values(caller))
        elif isinstance(container, dict):
            kept = {} if place == ParameterLocation.QUERY else container
            setattr(case, CONTAINERS[place], {**kept, **{key: made(value, caller) for key, value in values.items()}})


def made(value, caller):
    return value(caller) if callable(value) else value


@schemathesis.hook
def after_call(context, case, response):
    if case.meta is None:
        return
    if 200 <= response.status_code < 300:
        succeeded.add(label(case))
    SEEN.write(json.dumps({"operation": label(case), "status": response.status_code}) + "\n")
