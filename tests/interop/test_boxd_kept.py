"""Managed processes of persistent sessions when boxd ends under them."""

import os
import signal

import boxd_lib
from attachment import Attachment
from boxd_lib import OwnServerCase


class Restarted(OwnServerCase):
    """boxd ends under a persistent session's processes."""

    def test_processes_survive_boxd(self):
        p = self.pb.process
        self.client.create(self.sid, persistent=True)
        for name, command in (("lives", "echo one; cat; echo end"), ("ended", "echo was; exit 5")):
            self.client.processes.StartManagedProcess(p.StartManagedProcessRequest(
                session_id=self.sid, process_id=name,
                spec=p.ProcessSpec(shell_command=command, env={"K": "V"})))
        self.client.processes.WaitManagedProcess(
            p.WaitManagedProcessRequest(session_id=self.sid, process_id="ended"))
        a = Attachment(self, "lives", stdout_offset=0, write=True)
        a.attached()
        a.stdin(b"two\n")
        a.until(b"two\n")
        before = self.client.processes.GetManagedProcess(
            p.GetManagedProcessRequest(session_id=self.sid, process_id="lives")).process
        for how in ("crash", "stop"):
            if how == "crash":
                self.crash("boxd")
            else:
                self.client.close()
                self.boxd.stop_boxd()
            self.restart_boxd()
            after = self.client.processes.GetManagedProcess(
                p.GetManagedProcessRequest(session_id=self.sid, process_id="lives")).process
            self.assertEqual((after.pid, list(after.env_keys), after.spec, after.state),
                             (before.pid, ["K"], before.spec, p.PROCESS_STATE_RUNNING))
            ended = self.client.processes.GetManagedProcess(
                p.GetManagedProcessRequest(session_id=self.sid, process_id="ended")).process
            self.assertEqual(ended.verdict.exit_code, 5)
        a = Attachment(self, "lives", stdout_offset=0, write=True)
        a.attached()
        a.stdin(b"three\n")
        a.close_stdin()
        self.assertEqual(a.finish().exit_code, 0)
        self.assertEqual(a.bytes["stdout"], b"one\ntwo\nthree\nend\n")
        self.client.delete(self.sid)

    def test_file_workers_that_wait_do_not_keep_boxd(self):
        self.client.create(self.sid, persistent=True)
        self.client.file("WriteFile", self.sid, "f", data=b"kept")
        self.client.close()
        self.boxd.stop_boxd()
        self.restart_boxd()
        self.assertEqual(self.client.file("ReadFile", self.sid, "f").text, "kept")
        self.client.delete(self.sid)

    def test_a_sandbox_that_hangs_does_not_keep_boxd(self):
        uid = self.client.create(self.sid, persistent=True).uid
        agent = self.boxd.first_process(uid)
        os.kill(agent, signal.SIGSTOP)
        call = self.client.execs.Exec.future(self.client.exec_request("sleep 100", self.sid))
        boxd_lib.wait_until(lambda: self.client.get(self.sid).active_execs == 1)
        self.client.close()
        self.boxd.stop_boxd()  # it waits for a while first
        self.assertTrue(call.done())
        os.kill(agent, signal.SIGCONT)
        self.restart_boxd()
        self.assertEqual(self.client.out("echo still here", self.sid), "still here")
        self.client.delete(self.sid)


if __name__ == "__main__":
    boxd_lib.main()
