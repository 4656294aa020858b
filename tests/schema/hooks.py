"""Supplies Schemathesis with credentials and existing values for the management API.

Schemathesis generates requests from the OpenAPI document. A generated identifier or token does not exist, so most calls
would fail at once. These hooks put existing values into three of four valid requests. A request that ends a session or
removes something gets an object that was created for it, so that later requests find the others unchanged.
"""

import itertools
import json
import os
import threading
import zlib

import schemathesis
from people import BASE, PASSWORD, Person, Site, fresh_address
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
#: Somebody else, whose things may go.
OTHER = SITE.person()


def operator():
    return Person(SITE, SITE.sheet["operator"]["email"], SITE.sheet["operator"]["password"])


CALLER = operator() if GROUP == "operator" else OWNER


def another():
    """A new session of a caller of this kind."""
    return operator() if GROUP == "operator" else Person(SITE, OTHER.address)


#: Who asks for what an account, a session or something else of the caller's does not outlive.
ASKING = {
    "POST /auth/logout": another,
    "POST /auth/logout-all": SITE.person,
    "POST /auth/me/password": SITE.person,
    "PUT /auth/me/email": SITE.person,
    "POST /auth/me/confirmation": lambda: Person(SITE, SITE.applicant()),
    "DELETE /auth/sessions/{id}": lambda: OTHER,
}
if GROUP == "user":
    for gone in ("projects/{id}", "keys/{id}", "tenants/{id}/members/{user_id}", "tenants/{id}/invitations/{invitation_id}"):
        ASKING[f"DELETE /{gone}"] = lambda: OTHER
    ASKING["PUT /tenants/{id}/members/{user_id}"] = lambda: OTHER


def path(**values):
    """The path parameters of an operation and their values; a function creates a value for each call from its caller."""
    return ParameterLocation.PATH, values


def body(**values):
    """The members of the body, likewise."""
    return ParameterLocation.BODY, values


def query(**values):
    """All query parameters: generated ones rarely fit together."""
    return ParameterLocation.QUERY, values


def another_session(caller):
    session = Person(SITE, caller.address)
    return next(one["id"] for one in session.ask("GET", "/auth/sessions") if one["current"])


def invited(_):
    # Generated requests may use up the owner's limit of open invitations.
    _, address = OTHER.invitation()
    return SITE.mailed(address)


def weighed(caller):
    """A method whose weight an operator has set."""
    caller.ask("PUT", "/operator/cu-weights/eth/eth_call", {"cu": 20})
    return "eth_call"


def limited(caller):
    """A project with its own quota, of a new user: generated requests may disable the owner."""
    project = SITE.person().project()
    caller.ask("PUT", f"/operator/projects/{project}/quota", {"rps_limit": 9})
    return project


in_tenant, in_project = path(id=OWNER.tenant), path(id=PROJECT)
grouped = itertools.cycle(["day,chain", "method,status", "hour,key,project,transport", "method,key,status,day"])
usage = query(group_by=lambda _: next(grouped), period="24h", limit=50)
of_caller = {"id": lambda caller: caller.tenant}
CONTAINERS = {ParameterLocation.PATH: "path_parameters", ParameterLocation.QUERY: "query", ParameterLocation.BODY: "body"}
ALSO_IN_CSV = {"GET /usage", "GET /tenants/{id}/usage"}
#: Values that lead on, by operation.
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
    "DELETE /keys/{id}": [path(id=lambda caller: caller.key(caller.project())[0])],
    "GET /tenants/{id}": [in_tenant],
    "PUT /tenants/{id}": [in_tenant, body(name="Of the tests")],
    "GET /usage": [usage],
    "GET /tenants/{id}/usage": [in_tenant, usage],
    "GET /tenants/{id}/members": [in_tenant],
    "PUT /tenants/{id}/members/{user_id}": [path(user_id=lambda caller: caller.colleague(), **of_caller)],
    "DELETE /tenants/{id}/members/{user_id}": [path(user_id=lambda caller: caller.colleague(), **of_caller)],
    "GET /tenants/{id}/invitations": [in_tenant],
    "POST /tenants/{id}/invitations": [in_tenant, body(email=lambda _: fresh_address())],
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
    "POST /limit-requests": [body(reason="more calls")],
    "POST /notifications/{id}/read": [path(id=lambda _: OWNER.notification())],
    "PUT /operator/chains/{chain}": [path(chain="doge")],
    "GET /operator/cu-weights/{chain}/{method}": [path(chain="eth", method="eth_call")],
    "PUT /operator/cu-weights/{chain}/{method}": [path(chain="eth", method="eth_call")],
    "DELETE /operator/cu-weights/{chain}/{method}": [path(chain="eth", method=weighed)],
    "GET /operator/plans/{tier}": [path(tier="free")],
    "PUT /operator/plans/{tier}": [path(tier="free"), body(price_per_cu=0.5)],
    **{
        f"POST /operator/users/{{id}}/{action}": [path(id=lambda _: SITE.person().id)]
        for action in ("unlock", "reset", "disable", "enable")
    },
    "PUT /operator/projects/{id}/quota": [in_project],
    "DELETE /operator/projects/{id}/quota": [path(id=limited)],
    "PUT /operator/tenants/{id}": [path(id=OTHER.tenant)],
    "PUT /operator/limit-requests/{id}": [path(id=lambda _: SITE.person().limit_request())],
}


def label(case):
    return f"{case.method.upper()} {case.operation.path.removeprefix(BASE)}"


def number(case):
    """The same random generator for the same request."""
    return zlib.crc32(repr((case.path_parameters, case.query, case.body)).encode(errors="replace"))


def is_left(case):
    """Whether a request is sent as it was generated."""
    return number(case) % 4 == 0


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
    caller = CALLER if is_open else ASKING.get(name, lambda: CALLER)()
    if not is_open:
        case.headers = {**(case.headers or {}), "authorization": f"Bearer {caller.token}"}
    if name in ALSO_IN_CSV and number(case) % 3 == 0:
        case.headers = {**(case.headers or {}), "accept": "text/csv"}
    # Operators alone use the operator operations, and users alone the others: other requests stay unchanged and are refused.
    is_theirs = is_open or name in ASKING or (" /operator/" in name) == (GROUP == "operator")
    if name == "PUT /operator/plans/{tier}" and isinstance(case.body, dict):
        # Objects that plans limit are still created, even by a caller that was moved to another plan.
        for count in {"projects", "keys_per_project", "members"} & case.body.keys():
            if type(case.body[count]) is int and 0 <= case.body[count] < 1_000:
                case.body[count] += 1_000
    if not is_theirs or is_left(case):
        return
    for place, values in VALUES.get(name, []):
        container = getattr(case, CONTAINERS[place])
        if isinstance(container, dict) and not case.meta.is_negative_at(place):
            kept = {} if place == ParameterLocation.QUERY else container
            setattr(case, CONTAINERS[place], {**kept, **{key: made(value, caller) for key, value in values.items()}})


def made(value, caller):
    return value(caller) if callable(value) else value


@schemathesis.hook
def after_call(context, case, response):
    if case.meta is None:
        return
    SEEN.write(json.dumps({"operation": label(case), "status": response.status_code}) + "\n")
