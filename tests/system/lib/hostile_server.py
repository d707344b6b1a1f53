"""An HTTP server with every way in which a download goes wrong. An address's first folder names the way:

    with HostileServer({"a.gz": content}) as server:
        server.address("cut")      # the folder whose a.gz is cut, again and again
        server.requests            # (way, Range or None) of each request
"""
import http.server
import re
import socketserver
import threading

FIRST = 1000  # bytes of an answer that is cut or stalls, where the file has more


class HostileServer:
    def __init__(self, files, context=None):
        """`context`: an ssl.SSLContext."""
        self.files, self.requests, self.gate = dict(files), [], threading.Event()
        owner = self

        class Handler(_Handler):
            server_of_test = owner

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):  # a client that has gone
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self._scheme = "http"
        if context:
            self._scheme = "https"
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()

    def address(self, way, host="127.0.0.1"):
        return "%s://%s:%d/%s" % (self._scheme, host, self.port, way)

    def ranges(self, way):
        return [span for asked, span in self.requests if asked == way]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_CONNECT(self):
        self.answer(403, b"no")

    def do_GET(self):
        if self.path.startswith("http://"):  # asked as a proxy, which refuses
            return self.answer(403, b"no")
        _, way, name = self.path.split("/", 2)
        span = self.headers.get("Range")
        self.server_of_test.requests.append((way, span))
        self.first_time = len(self.server_of_test.ranges(way)) == 1
        self.close_connection = True
        self.content = self.server_of_test.files.get(name)
        if self.content is None:
            return self.answer(404, b"there is no such file")
        self.begin = int(re.fullmatch(r"bytes=(\d+)-", span)[1]) if span else 0
        getattr(self, way.replace("-", "_"))()

    def answer(self, status, body=b"", length=None, **headers):
        """`length`: what Content-Length says; False: nothing."""
        self.send_response(status)
        if length is not False:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def part(self, content, most=None):
        """The answer to the request, of which only `most` bytes come."""
        if not self.begin:
            return self.answer(200, content[:most], len(content))
        if self.begin >= len(content):
            return self.answer(416, Content_Range="bytes */%d" % len(content))
        rest = content[self.begin:]
        self.answer(206, rest[:most], len(rest),
                    Content_Range="bytes %d-%d/%d" % (self.begin, len(content) - 1, len(content)))

    def wait(self):
        self.server_of_test.gate.wait(60)

    # ---- the ways

    def whole(self):
        self.part(self.content)

    def cut(self):
        self.part(self.content, len(self.content) // 3 + 1)

    def cut_often(self):
        self.part(self.content, 20 * FIRST)

    def drips(self):
        self.part(self.content, 1)

    def stalls(self):
        self.part(self.content, FIRST)
        self.wait()

    def stalls_once(self):
        self.part(self.content, FIRST if self.first_time else None)
        if self.first_time:
            self.wait()

    def silent(self):
        self.wait()

    def long_header(self):
        self.answer(200, self.content, X_Long="x" * 200000)

    def too_long(self):
        self.answer(200, self.content, len(self.content) + 100)

    def too_short(self):
        self.answer(200, self.content, len(self.content) - 100)

    def no_length(self):
        self.answer(200, self.content, False)

    def no_length_cut(self):
        rest = self.content[self.begin:]
        self.answer(206 if self.begin else 200, rest[:len(rest) // 2 + 60 * FIRST], False,
                    **({"Content_Range": "bytes %d-/*" % self.begin} if self.begin else {}))

    def redirects(self):
        self.answer(302, Location="/whole/" + self.path.split("/", 2)[2])

    def loops(self):
        self.answer(302, Location=self.path)

    def to_a_file(self):
        self.answer(302, Location="file:///etc/passwd")

    def other(self):
        self.part(bytes(byte ^ 1 for byte in self.content))

    def longer(self):
        self.part(self.content + b"x")

    def endless(self):
        self.answer(200, b"", False)
        while True:
            self.wfile.write(b"x" * 65536)

    def page(self):
        self.answer(200, b"<!DOCTYPE html><html>Please log in.</html>")

    def fails(self):
        self.answer(500, b"an error")

    def no_ranges(self):
        """Cuts the first answer, and sends the whole file whatever is asked for."""
        self.answer(200, self.content[:FIRST] if self.first_time else self.content, len(self.content))

    def refuses_ranges(self):
        if self.begin:
            return self.answer(416)
        self.part(self.content, FIRST if self.first_time else None)

    def another_range(self):
        if not self.begin:
            return self.part(self.content, FIRST)
        self.answer(206, self.content[5:], Content_Range="bytes 5-%d/%d" % (len(self.content) - 1, len(self.content)))

    def old_beginning(self):
        """Begins with an older version of the file, and cuts it."""
        if self.first_time:
            return self.part(b"\0" * len(self.content), FIRST)
        self.part(self.content)
