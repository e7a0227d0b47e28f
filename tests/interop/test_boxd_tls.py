"""TLS of the real server while it runs: files read again on SIGHUP, client certificates, the certificate's
end in status and log."""

import os
import shutil
import signal
import time

import grpc

import boxd_lib
import lib
from boxd_lib import BOXD_UID, BoxdCase

DAY = 86400


def setUpModule():
    Tls.folder = lib.TemporaryFolder()
    os.chmod(Tls.folder.path, 0o711)
    Tls.certs = lib.Certificates(Tls.folder.path)  # of clients; their name is localhost
    BoxdCase.start_server(config=f"tls:\n  client_ca: {Tls.certs.ca}\n  client_auth: request\n")


def tearDownModule():
    BoxdCase.stop_server()
    Tls.folder.remove()


class Tls(BoxdCase):
    folder = certs = None

    def whoami(self, credentials):
        with grpc.secure_channel(f"localhost:{self.boxd.port}", grpc.composite_channel_credentials(
                credentials, grpc.access_token_call_credentials(self.boxd.token))) as channel:
            stub = self.pb.control_rpc.ControlServiceStub(channel)
            return stub.WhoAmI(self.pb.control.WhoAmIRequest(), timeout=10)

    def test_a_client_certificate_shows_in_whoami(self):
        with open(self.certs.key, "rb") as key, open(self.certs.cert, "rb") as cert:
            shown = grpc.ssl_channel_credentials(self.boxd.ca, key.read(), cert.read())
        self.assertEqual(self.whoami(shown).client_certificate, "localhost")
        self.assertEqual(self.whoami(grpc.ssl_channel_credentials(self.boxd.ca)).client_certificate, "")

    def put(self, source, name, mode=0o600):
        """As boxd's own development certificate, which it can read."""
        path = os.path.join(self.boxd.state_dir, name)
        shutil.copy(source, path + ".new")
        os.chown(path + ".new", BOXD_UID, BOXD_UID)
        os.chmod(path + ".new", mode)
        os.rename(path + ".new", path)

    def hup(self, event):
        count = self.boxd.boxd.log().count(event)
        os.kill(self.boxd.boxd.pid, signal.SIGHUP)
        lib.wait_for(lambda: self.boxd.boxd.log().count(event) > count, event)

    def expires_in_days(self):
        server = self.client.control.GetStatus(self.pb.control.GetStatusRequest()).server
        return (server.certificate_expires_at.seconds - time.time()) / DAY

    def test_files_are_read_again(self):
        before = self.expires_in_days()
        self.assertGreater(before, 14)
        self.put(self.certs.key, "server.key")  # of another certificate
        self.hup("tls.reload_failed")
        self.assertAlmostEqual(self.expires_in_days(), before, 1)
        self.put(self.certs.cert, "server.pem")
        self.put(self.certs.key, "server.key", 0o644)
        self.hup("tls.reloaded")  # the client of these tests stays connected throughout
        self.assertAlmostEqual(self.expires_in_days(), 2, 1)
        log = self.boxd.boxd.log()
        self.assertIn("tls.certificate_ends_soon", log)
        self.assertIn("tls.key_readable_by_others", log)
        with open(self.certs.ca, "rb") as ca:
            self.assertEqual(self.whoami(grpc.ssl_channel_credentials(ca.read())).tenant_id, "default")
        with self.assertRaises(grpc.RpcError) as caught:
            self.whoami(grpc.ssl_channel_credentials(self.boxd.ca))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)


if __name__ == "__main__":
    boxd_lib.main()
