"""A stand-in for Stripe, which creates a checkout before a customer can pay."""

import contextlib
import http.server
import json
import threading
import urllib.parse
import uuid

SECRET_KEY = "key of the payment provider"


class Handler(http.server.BaseHTTPRequestHandler):
    """Creates a checkout session from every form that Stripe would accept."""

    def do_POST(self):
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        is_known = self.headers["authorization"] == f"Bearer {SECRET_KEY}"
        is_complete = {"mode", "success_url", "client_reference_id"} <= form.keys()
        if self.path == "/v1/checkout/sessions" and is_known and is_complete:
            session = uuid.uuid4()
            status, answer = 200, {"id": f"cs_{session}", "url": f"https://payments.example/{session}"}
        else:
            status, answer = 400, {"error": {"message": f"{self.path} with {sorted(form)} is refused"}}
        answer = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def provider():
    """Returns the base URL of a running provider."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
