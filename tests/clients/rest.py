"""Shared code of the scripts that use REST without an SDK: a session of `requests`, and checks of answers' shapes."""

import re

import requests

#: The header that a browser's page may send; a preflight asks for it.
ASKED = "apikey"
WINDOWS = ("minute", "hour", "day")


class Rest:
    """The REST API of a chain, with the key in a header."""

    def __init__(self, chain):
        self.url, self.key = chain["url"], chain["key"]
        self.session = requests.Session()
        self.session.headers["apikey"] = self.key

    def ask(self, verb, path, status, **named):
        """Sends a request, fails unless the answer has this status, and returns the answer."""
        answer = self.session.request(verb, self.url + path, timeout=60, **named)
        return right(answer, verb, path, status)

    def untidied(self, path, status):
        """Like `ask` with GET, but sends the path unchanged: a session would resolve its dots and escapes."""
        request = self.session.prepare_request(requests.Request("GET", self.url))
        request.url = self.url + path
        return right(self.session.send(request, timeout=60), "GET", path, status)

    def get(self, path, status=200, /, **query):
        """Returns the JSON answer of a GET."""
        answer = self.ask("GET", path, status, params=query)
        assert answer.headers["content-type"].split(";")[0] == "application/json", answer.headers
        return answer.json()


def right(answer, verb, path, status):
    assert answer.status_code == status, f"{verb} {path}: {answer.status_code} {answer.text[:500]}"
    return answer


def doors(rest, check, path):
    """Checks that hold for every chain: authentication, CORS and the headers of answers."""
    with check("no key and a wrong key are a 401"):
        for headers in ({}, {"apikey": "unknown"}):
            answer = requests.get(rest.url + path, headers=headers, timeout=60)
            assert answer.status_code == 401 and answer.json()["message"], (headers, answer.text)
            assert not [name for name in answer.headers if "ratelimit" in name.lower()], answer.headers

    with check("the key in the query"):
        assert requests.get(rest.url + path, params={"apikey": rest.key}, timeout=60).status_code == 200

    with check("a page in a browser may call"):
        headers = {
            "origin": "https://page.example",
            "access-control-request-method": "GET",
            "access-control-request-headers": ASKED,
        }
        preflight = requests.options(rest.url + path, headers=headers, timeout=60)
        assert preflight.ok and preflight.headers["access-control-allow-origin"] == "*", preflight.headers
        assert ASKED in re.split(r",\s*", preflight.headers["access-control-allow-headers"]), preflight.headers
        refused = requests.get(rest.url + path, headers={"origin": headers["origin"]}, timeout=60)
        assert refused.headers["access-control-allow-origin"] == "*", refused.headers

    with check("an answer has the remaining requests and its cost"):
        # The count restarts with each minute.
        for _ in range(2):
            first, second = (rest.ask("GET", path, 200).headers for _ in range(2))
            if int(second["x-ratelimit-remaining-minute"]) < int(first["x-ratelimit-remaining-minute"]):
                break
        for window in WINDOWS:
            most, left, before = (
                int(headers[f"x-ratelimit-{name}-{window}"])
                for headers, name in ((second, "limit"), (second, "remaining"), (first, "remaining"))
            )
            assert left == before - 1 and 0 <= left < most, (window, most, before, left)
        assert second["x-compute-units"] == "1", second

    with check("HEAD is GET without its body"):
        answer = rest.ask("HEAD", path, 200)
        assert not answer.content and answer.headers["content-type"] == "application/json", answer.headers


def shape(value, wanted, where="answer"):
    """Fails unless `value` has this shape: a type, a pattern for the whole text, a list with at least one such item, an
    object with at least these members; any other shape is the expected value itself.
    """
    if isinstance(wanted, dict):
        assert isinstance(value, dict), f"{where} is not an object: {value!r}"
        for name, one in wanted.items():
            assert name in value, f"{where} lacks {name}: {value!r}"
            shape(value[name], one, f"{where}.{name}")
    elif isinstance(wanted, list):
        assert isinstance(value, list) and value, f"{where} is not a list with items: {value!r}"
        for index, item in enumerate(value):
            shape(item, wanted[0], f"{where}[{index}]")
    elif isinstance(wanted, re.Pattern):
        assert isinstance(value, str) and wanted.fullmatch(value), f"{where} is not {wanted.pattern}: {value!r}"
    elif isinstance(wanted, type):
        # In Python a bool is an int too.
        assert isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool)), (
            f"{where} is not {wanted.__name__}: {value!r}"
        )
    else:
        assert value == wanted, f"{where} is not {wanted!r}: {value!r}"
