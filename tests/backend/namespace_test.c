/* Backend `namespace` as it really is: what a command can see, do and use up inside. The real
 * box-warden and box-agent, as root. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>
#include <netinet/in.h>

#include "base/fd.h"
#include "warden_client.h"

#define PYTHON "/usr/bin/python3 -c "
#define MIB    (INT64_C(1) << 20)

enum { OWNER = 41234 /* who owns the allowed root on the host */ };

typedef struct fixture {
    test_warden warden;
    test_boxd boxd;
    char root[80]; /* an allowed root */
} fixture;

static int start(void **state)
{
    static fixture f;
    char extra[256];
    char made[] = "/tmp/box-root-XXXXXX";
    assert_non_null(mkdtemp(made));
    (void)snprintf(f.root, sizeof f.root, "%s", made);
    (void)snprintf(extra, sizeof extra, "allowed_roots:\n  - {path: %s, owner_uid: %d}\n", f.root,
                   OWNER);
    assert_int_equal(chown(f.root, OWNER, OWNER), 0);
    box_uid instance = box_uid_new();
    test_warden_init(&f.warden, extra);
    test_warden_start(&f.warden);
    test_boxd_connect(&f.boxd, &f.warden, &instance);
    *state = &f;
    return 0;
}

static int stop(void **state)
{
    fixture *f = *state;
    box_uid instance = f->boxd.instance;
    test_boxd_close(&f->boxd);
    test_boxd_connect(&f->boxd, &f->warden, &instance);
    (void)test_boxd_ask(&f->boxd, BOX_WARDEN_SWEEP, &(box_uid){0}); /* what failed tests left */
    test_boxd_close(&f->boxd);
    test_warden_done(&f->warden);
    char command[128];
    (void)snprintf(command, sizeof command, "rm -r %s", f->root);
    FILE *p = popen(command, "re");
    return p != NULL && pclose(p) == 0 ? 0 : -1;
}

static test_box make(fixture *f, box_warden_create request)
{
    test_box box;
    test_box_create(&f->boxd, &f->warden, request, &box);
    return box;
}

/* What a default sandbox says to a script. */
static void expect(test_box *box, const char *script, const char *text)
{
    assert_string_equal(test_box_output(box, script), text);
}

static void a_command_sees_only_its_own_system(void **state)
{
    fixture *f = *state;
    test_box box = make(f, (box_warden_create){0});
    expect(&box, "id -u; id -g; id -G; hostname", "1000\n1000\n1000\nbox");
    expect(&box, "ls -d /root /boot /mnt /opt /srv /media /work /lost+found 2>/dev/null; true", "");
    expect(&box, "ls -A /run /home /tmp /workspace /dev/shm",
           "/dev/shm:\n\n/home:\n\n/run:\n\n/tmp:\n\n/workspace:");
    expect(&box, "ls -A /dev | tr '\\n' ' '",
           "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero ");
    expect(&box, "cat /etc/shadow /etc/machine-id /etc/ssl/private/* 2>/dev/null; true", "");
    expect(&box, "cut -d: -f1 /etc/passwd | tr '\\n' ' '", "root box nobody ");
    expect(&box, "readlink -f /var/tmp", "/tmp");
    assert_null(strstr(test_box_output(&box, "cat /proc/self/mountinfo"), "box-test-"));
    test_box_destroy(&f->boxd, &box);
}

static void a_command_has_no_privilege_and_no_stray_descriptor(void **state)
{
    fixture *f = *state;
    test_box box = make(f, (box_warden_create){0});
    expect(&box, "grep -c '^Cap.*0000000000000000$' /proc/self/status", "5");
    expect(&box, "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t\\n'",
           "NoNewPrivs:1Seccomp:2");
    expect(&box, "ls /proc/self/fd | tr '\\n' ' '", "0 1 2 3 ");
    expect(&box,
           "cat /proc/1/environ /proc/1/maps /proc/1/mem 2>/dev/null; ls /proc/1/fd "
           "2>/dev/null; readlink /proc/1/exe; true",
           "");
    expect(&box, "env | cut -d= -f1 | sort | tr '\\n' ' '", "HOME LANG PATH PWD ");
    test_run run;
    test_box_run(&box, "(kill -9 1; kill -STOP 1; kill -9 -1) 2>/dev/null", &run);
    assert_int_equal(run.exit.signal, 9); /* the last one reached its own shell, nothing else */
    expect(&box, "echo alive", "alive");
    test_box_destroy(&f->boxd, &box);
}

static void nothing_of_the_system_can_be_written(void **state)
{
    fixture *f = *state;
    test_box box = make(f, (box_warden_create){0});
    expect(&box,
           "for d in / /usr /etc /dev /run /var /proc/sys /sys /proc; do "
           "(: > $d/box-test) 2>/dev/null && echo wrote $d; done; true",
           "");
    expect(&box,
           "for p in /proc/sys/kernel/core_pattern /proc/sys/user/max_user_namespaces "
           "/proc/sys/vm/drop_caches /proc/irq/default_smp_affinity; do "
           "(echo 1 > $p) 2>/dev/null && echo wrote $p; done; true",
           "");
    /* Covered by the null device: what is written goes nowhere. */
    expect(&box,
           "cat /proc/sysrq-trigger /proc/kcore /proc/keys /proc/timer_list /proc/cmdline "
           "/proc/latency_stats /proc/acpi/* 2>/dev/null | wc -c",
           "0");
    expect(&box,
           "cd /proc; for d in acpi driver scsi asound; do "
           "ls -A $d 2>/dev/null; (: > $d/box-test) 2>/dev/null && echo wrote $d; done; true",
           "");
    expect(&box, "cat /proc/sys/user/max_user_namespaces", "0");
    expect(&box,
           "for d in /tmp /home /workspace /dev/shm /var/tmp; do echo x > $d/f && cat $d/f; "
           "done | tr -d '\\n'",
           "xxxxx");
    test_box_destroy(&f->boxd, &box);
}

/* Each call of hostile-inputs row 10, with arguments as good as they get: "name errno" for those
 * that are not refused. */
static const char probe[] = PYTHON
    "'import ctypes,errno\n"
    "c=ctypes.CDLL(None,use_errno=True)\n"
    "def t(name,*a):\n"
    "  ctypes.set_errno(0); r=c.syscall(*[ctypes.c_long(x) for x in a])\n"
    "  e=ctypes.get_errno()\n"
    "  if r>=0 or e not in (errno.EPERM,errno.ENOSYS,errno.ENOSPC,errno.EACCES): "
    "print(name,r,e)\n"
    "kept=[]\n"
    "def s(x):\n"
    "  kept.append(ctypes.create_string_buffer(x)); return ctypes.addressof(kept[-1])\n"
    "b=s(512)\n"
    "t(\"io_uring_setup\",425,8,b); t(\"keyctl\",250,0,-3,1); t(\"add_key\",248,b,b,b,1,-3)\n"
    "t(\"bpf\",321,0,b,64); t(\"userfaultfd\",323,0); t(\"perf\",298,b,0,-1,-1,0)\n"
    "t(\"ptrace\",101,16,1,0,0); t(\"unshare user\",272,0x10000000); "
    "t(\"unshare ns\",272,0x20000)\n"
    "t(\"mount\",165,b,b,b,0,0); t(\"umount\",166,b,2); t(\"pivot\",155,b,b); "
    "t(\"setns\",308,0,0)\n"
    "t(\"open_by_handle\",304,-100,b,0); t(\"kexec\",246,0,0,b,0); t(\"init_module\",175,b,1,b)\n"
    "t(\"clone\",56,0x10000000|17,0,0,0,0); t(\"openat2\",437,-100,b,b,24)\n"
    "a=(ctypes.c_uint64*11)(0x10000000,0,0,0,17); t(\"clone3\",435,ctypes.addressof(a),88)\n"
    "p=s(b\"/tmp/s\")\n"
    "open(\"/tmp/s\",\"w\").close()\n"
    "t(\"chmod\",90,p,0o4755); t(\"fchmodat\",268,-100,p,0o2755); "
    "t(\"fchmodat2\",452,-100,p,0o4755,0)\n"
    "q=s(b\"/tmp/q\")\n"
    "t(\"open\",2,q,0o101,0o4755); t(\"openat\",257,-100,q,0o101,0o6755); "
    "t(\"creat\",85,q,0o4755)\n"
    "t(\"mknod\",133,q,0o100000|0o4755,0); t(\"mknod dev\",133,q,0o20666,0x103)\n"
    "t(\"setpipe\",72,1,1031,4096); t(\"tiocsti\",16,0,0x5412,b); "
    "t(\"tiocsti high\",16,0,0x100005412,b); t(\"tioclinux\",16,0,0x541c,b)\n"
    "t(\"reboot\",169,0xfee1dead,672274793,0,0); t(\"swapon\",167,p,0); "
    "t(\"acct\",163,p); t(\"quotactl\",179,0x80000200,p,0,b)\n"
    "'";

static void dangerous_system_calls_are_refused_without_a_kill(void **state)
{
    fixture *f = *state;
    test_box box = make(f, (box_warden_create){0});
    expect(&box, probe, "");
    expect(&box, "ls -l /tmp/s | cut -c1-10; ls /tmp/q 2>/dev/null; true", "-rw-r--r--");
    test_box_destroy(&f->boxd, &box);
}

static void the_network_is_off(void **state)
{
    fixture *f = *state;
    test_box box = make(f, (box_warden_create){0});
    BOX_AUTO(box_closep) int server = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    assert_int_equal(bind(server, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(server, 1), 0);
    assert_int_equal(getsockname(server, (struct sockaddr *)&a, &len), 0);
    char script[1024];
    (void)snprintf(script, sizeof script,
                   PYTHON
                   "'import socket\n"
                   "def t(f,k,to,p=0):\n"
                   "  try:\n"
                   "    s=socket.socket(f,k,p); s.settimeout(2); s.connect(to); s.send(b\"x\"); "
                   "print(\"reached\",to)\n"
                   "  except OSError: pass\n"
                   "t(2,1,(\"127.0.0.1\",%d)); t(2,1,(\"169.254.169.254\",80)); "
                   "t(2,2,(\"8.8.8.8\",53)); t(10,1,(\"2001:4860:4860::8888\",53))\n"
                   "t(40,1,(2,1)); t(17,3,(\"lo\",0)); t(2,3,(\"8.8.8.8\",0),1); "
                   "t(38,5,(\"hash\",\"sha256\"))\n"
                   "t(1,1,\"\\0box-test\"); t(16,3,(0,0),15)\n"
                   "for n in (\"/run/docker.sock\",\"/var/run/docker.sock\"): t(1,1,n)\n"
                   "'",
                   ntohs(a.sin_port));
    expect(&box, script, "");
    assert_int_equal(accept(server, NULL, NULL), -1);
    expect(&box,
           PYTHON "'import socket\n"
                  "s=socket.create_server((\"127.0.0.1\",0)); "
                  "c=socket.create_connection(s.getsockname()); print(\"loopback works\")'",
           "loopback works");
    test_box_destroy(&f->boxd, &box);
}

static void the_usual_programs_run(void **state)
{
    fixture *f = *state;
    test_box box = make(f, (box_warden_create){.memory_bytes = 1024 * MIB});
    expect(&box, PYTHON "'print(6*7)'", "42");
    expect(&box, "node -e 'console.log(6*7)'", "42");
    expect(&box,
           "cd /workspace && echo 'int main(void){return 42;}' > a.c && gcc a.c -o a; ./a; echo $?",
           "42");
    expect(&box,
           "cd /workspace && git init -q r && cd r && git -c user.name=b -c user.email=b@b commit "
           "-qm first --allow-empty && git log --format=%s",
           "first");
    expect(&box, "/usr/bin/python3 -m pip --version | cut -d' ' -f1", "pip");
    expect(&box,
           PYTHON "'import threading,multiprocessing as m\n"
                  "m.set_start_method(\"spawn\"); p=m.Pool(2); print(sum(p.map(abs,[1,2])))\n'"
                  " 2>&1 | tail -1",
           "3");
    test_box_destroy(&f->boxd, &box);
}

static int64_t number_in(int dir, const char *file)
{
    char text[64] = "";
    BOX_AUTO(box_closep) int fd = openat(dir, file, O_RDONLY);
    assert_true(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    return strtoll(text, NULL, 10);
}

static void limits_hold(void **state)
{
    fixture *f = *state;
    if ((f->boxd.hello.guarantees & (BOX_G_MEMORY | BOX_G_PIDS)) != (BOX_G_MEMORY | BOX_G_PIDS))
        skip();
    test_box box = make(f, (box_warden_create){.memory_bytes = 64 * MIB,
                                               .pids = 16,
                                               .workspace_bytes = 4 * MIB,
                                               .tmp_bytes = MIB,
                                               .home_bytes = MIB,
                                               .shm_bytes = MIB});
    test_run run;
    test_box_run(&box, "exec " PYTHON "'b=bytearray(300<<20); print(len(b))'", &run);
    assert_int_equal(run.exit.signal, 9);
    assert_true(test_boxd_ask(&f->boxd, BOX_WARDEN_USAGE, &box.uid).oom_kills > 0);
    expect(&box, "head -c 5M /dev/zero > /workspace/f; stat -c %s /workspace/f; rm /workspace/f",
           "head: error writing 'standard output': No space left on device\n4194304");
    expect(&box,
           PYTHON "'import os\nn=0\ntry:\n"
                  "  while 1: open(\"/workspace/%d\"%n,\"w\").close(); n+=1\n"
                  "except OSError as e: print(n,e.errno)\n'; rm -f /workspace/*",
           "1023 28");
    expect(&box,
           "for d in /tmp /home /dev/shm; do head -c 2M /dev/zero > $d/f 2>/dev/null; "
           "stat -c %s $d/f; rm $d/f; done",
           "1048576\n1048576\n1048576");
    test_box_run(&box, "for i in $(seq 40); do sleep 5 & done", &run);
    assert_non_null(strstr(run.output, "annot fork"));
    char events[64] = "";
    BOX_AUTO(box_closep)
    int pids = openat(box.pids, "pids.events", O_RDONLY | O_CLOEXEC);
    assert_true(pids >= 0 && read(pids, events, sizeof events - 1) > 0);
    assert_true(strncmp(events, "max ", 4) == 0 && events[4] != '0');
    expect(&box, "echo usable", "usable");
    assert_true(box.memory >= 0);
    test_box_destroy(&f->boxd, &box);
}

static void filling_every_volume_does_not_break_the_session(void **state)
{
    fixture *f = *state;
    if ((f->boxd.hello.guarantees & BOX_G_MEMORY) == 0)
        skip();
    test_box box = make(f, (box_warden_create){.memory_bytes = 32 * MIB,
                                               .workspace_bytes = 16 * MIB,
                                               .tmp_bytes = 16 * MIB,
                                               .home_bytes = 16 * MIB,
                                               .shm_bytes = 16 * MIB});
    expect(&box,
           "for d in /workspace /tmp /home /dev/shm; do head -c 20M /dev/zero > $d/f "
           "2>/dev/null; stat -c %s $d/f; done",
           "16777216\n16777216\n16777216\n16777216");
    expect(&box, "rm /workspace/f /tmp/f; echo removed", "removed");
    test_box_destroy(&f->boxd, &box);
}

static void limits_change_while_it_runs(void **state)
{
    fixture *f = *state;
    if ((f->boxd.hello.guarantees & BOX_G_LIVE_LIMITS) == 0)
        skip();
    test_box box = make(f, (box_warden_create){.memory_bytes = 32 * MIB});
    const char *script = PYTHON "'b=bytearray(150<<20); print(1)'";
    test_run run;
    test_box_run(&box, script, &run); /* 32 MiB and 160 of volumes, which are empty */
    expect(&box, script, "1");
    for (int round = 0; round < 2; round++) {
        box_warden_limits limits = {.uid = box.uid,
                                    .memory_bytes = round == 0 ? 8 * MIB : 64 * MIB,
                                    .pids = round == 0 ? 4 : 64,
                                    .cpu_millis = 500};
        int fds[BOX_ANSWER_MAX_FDS];
        size_t n;
        uint64_t id = test_boxd_send(&f->boxd, BOX_WARDEN_LIMITS, &limits, sizeof limits, -1);
        box_warden_answer answer = test_boxd_answer(&f->boxd, id, fds, &n);
        assert_string_equal(answer.error.msg, "");
        const char *file = box.answer.memory_version == 2 ? "memory.max" : "memory.limit_in_bytes";
        assert_int_equal(number_in(box.memory, file), limits.memory_bytes + 160 * MIB);
    }
    box_warden_answer usage = test_boxd_ask(&f->boxd, BOX_WARDEN_USAGE, &box.uid);
    assert_true(usage.memory_bytes > 0 && usage.memory_peak_bytes > 100 * MIB);
    assert_true(usage.pids > 0 && usage.workspace_bytes == 0);
    /* v1 has a controller of its own for it, which a host may leave out. */
    bool counts = box.cgroup >= 0 || access("/sys/fs/cgroup/cpuacct", F_OK) == 0;
    assert_true(counts ? usage.cpu_ns > 0 : usage.cpu_ns == -1);
    test_box_destroy(&f->boxd, &box);
}

static void the_cpu_quota_holds(void **state)
{
    fixture *f = *state;
    if ((f->boxd.hello.guarantees & BOX_G_CPU) == 0)
        skip();
    test_box box = make(f, (box_warden_create){.cpu_millis = 100});
    expect(&box,
           PYTHON "'import time\nt=time.monotonic(); c=time.process_time()\n"
                  "while time.monotonic()-t<1.5: pass\n"
                  "print(time.process_time()-c<0.6)'",
           "True");
    test_box_destroy(&f->boxd, &box);
}

static void shared_memory_goes_with_its_last_user(void **state)
{
    fixture *f = *state;
    if ((f->boxd.hello.guarantees & BOX_G_USER) == 0)
        skip(); /* nobody inside may set it: the id that may does not exist */
    test_box box = make(f, (box_warden_create){0});
    expect(&box, "ipcmk -M 1000 >/dev/null; ipcs -m | grep -c 0x || true", "0");
    test_box_destroy(&f->boxd, &box);
}

static void the_devpts_descriptor_makes_terminals(void **state)
{
    fixture *f = *state;
    test_box box = make(f, (box_warden_create){0});
    BOX_AUTO(box_closep) int master = openat(box.devpts, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0);
    int unlock = 0;
    assert_int_equal(ioctl(master, TIOCSPTLCK, &unlock), 0);
    BOX_AUTO(box_closep) int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    expect(&box, "stat -c %u:%a /dev/pts/0", "1000:620");
    test_box_destroy(&f->boxd, &box);
}

/* --- host_path, mount_path and what is not built ---------------------------------------------- */

static box_warden_create with_host_path(const char *path, uint32_t flags)
{
    box_warden_create r = {.flags = flags};
    (void)snprintf(r.host_path, sizeof r.host_path, "%s", path);
    return r;
}

/* Only root makes the mounts. */
static bool has_host_mounts(fixture *f)
{
    if ((f->boxd.hello.guarantees & BOX_G_HOST_MOUNT) != 0)
        return true;
    box_error err = test_box_refused(&f->boxd, &f->warden, with_host_path(f->root, 0));
    assert_int_equal(err.reason, BOX_GUARANTEE_UNSUPPORTED);
    assert_string_equal(box_error_get(&err, "guarantees"), "host_mount");
    assert_string_not_equal(test_wardens_kind(), "root");
    return false;
}

static void a_host_path_belongs_to_its_owner_on_both_sides(void **state)
{
    fixture *f = *state;
    if (!has_host_mounts(f))
        return;
    char dir[128];
    char file[160];
    struct stat st;
    (void)snprintf(dir, sizeof dir, "%s/project", f->root);
    (void)snprintf(file, sizeof file, "%s/made", dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(chown(dir, OWNER, OWNER), 0);
    test_box box = make(f, with_host_path(dir, 0));
    expect(&box, "echo hello > /workspace/made; stat -c %u:%g /workspace/made /workspace",
           "1000:1000\n1000:1000");
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_uid, OWNER);
    expect(&box, "chmod u+s /workspace/made 2>/dev/null || echo refused", "refused");
    test_box_destroy(&f->boxd, &box);
    box = make(f, with_host_path(dir, BOX_CREATE_HOST_READ_ONLY));
    expect(&box, "cat /workspace/made; (: > /workspace/x) 2>/dev/null || echo read-only",
           "hello\nread-only");
    test_box_destroy(&f->boxd, &box);
}

static void a_host_path_outside_the_rules_is_refused(void **state)
{
    fixture *f = *state;
    if (!has_host_mounts(f))
        return;
    char link[128];
    (void)snprintf(link, sizeof link, "%s/link", f->root);
    assert_int_equal(symlink("/etc", link), 0);
    const struct {
        const char *path;
        box_reason reason;
    } rows[] = {
        {"/", BOX_PERMISSION},     {"//", BOX_VALIDATION},
        {"/./", BOX_VALIDATION},   {"relative", BOX_VALIDATION},
        {"C:\\x", BOX_VALIDATION}, {"/tmp/..", BOX_VALIDATION},
        {"/etc", BOX_PERMISSION},  {"/proc/1/root", BOX_PERMISSION},
        {"/srv", BOX_PERMISSION},  {"/proc/self/cwd", BOX_PERMISSION},
        {"/tmp", BOX_PERMISSION},  {link, BOX_PERMISSION},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        box_error err = test_box_refused(&f->boxd, &f->warden, with_host_path(rows[i].path, 0));
        if (err.reason != rows[i].reason)
            fail_msg("%s: %s %s", rows[i].path, box_reason_name(err.reason), err.msg);
        if (err.reason == BOX_PERMISSION)
            assert_string_equal(box_error_get(&err, "rule"), "mount");
    }
}

static void a_workspace_can_be_mounted_elsewhere(void **state)
{
    fixture *f = *state;
    box_warden_create r = {.mount_path = "/home/me/project"};
    test_box box = make(f, r);
    expect(&box,
           "cd /home/me/project && echo x > f && stat -f -c %T . && ls -d /workspace "
           "2>/dev/null; true",
           "tmpfs");
    test_box_destroy(&f->boxd, &box);
}

static void a_writable_root_takes_files(void **state)
{
    fixture *f = *state;
    test_box box = make(f, (box_warden_create){.flags = BOX_CREATE_WRITABLE_ROOT});
    expect(&box,
           "mkdir /data && echo x > /data/f && cat /data/f; (: > /usr/x) 2>/dev/null || echo "
           "usr stays",
           "x\nusr stays");
    expect(&box,
           "head -c 40M /dev/zero > /home/f 2>/dev/null; echo y > /data/f && cat /data/f; "
           "head -c 40M /dev/zero > /data/f 2>/dev/null; rm /home/f; echo z > /home/f && "
           "cat /home/f",
           "y\nz");
    test_box_destroy(&f->boxd, &box);
}

static void a_sandbox_makes_few_file_systems(void **state)
{
    fixture *f = *state;
    test_box box = make(f, (box_warden_create){.home_bytes = MIB});
    expect(&box,
           "[ $(stat -c %d /) = $(stat -c %d /home) ] && echo one; (: > /x) 2>/dev/null || "
           "echo read-only",
           "one\nread-only");
    expect(&box,
           PYTHON "'import os\nn=0\ntry:\n"
                  "  while 1: open(\"/home/%d\"%n,\"w\").close(); n+=1\n"
                  "except OSError as e: print(n,e.errno)\n'; rm -f /home/*",
           "255 28");
    test_box_destroy(&f->boxd, &box);
}

static void what_is_not_built_is_refused_by_name(void **state)
{
    fixture *f = *state;
    const struct {
        box_warden_create request;
        const char *field;
    } rows[] = {
        {{.flags = BOX_CREATE_NETWORK_ON}, "network"},
        {{.image = "debian"}, "image"},
        {{.workspace_bytes = 257 * MIB}, "workspace_limit"},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        box_error err = test_box_refused(&f->boxd, &f->warden, rows[i].request);
        assert_int_equal(err.reason, BOX_GUARANTEE_UNSUPPORTED);
        assert_string_equal(box_error_get(&err, "fields"), rows[i].field);
        assert_string_equal(box_error_get(&err, "backend"), "namespace");
    }
    box_error err = test_box_refused(&f->boxd, &f->warden,
                                     (box_warden_create){.required = BOX_G_IMAGES | BOX_G_PROCESS});
    assert_string_equal(box_error_get(&err, "guarantees"), "images");
}

int main(int argc, char **argv)
{
    int code = test_wardens_begin(argc, argv);
    if (code != 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_sees_only_its_own_system),
        cmocka_unit_test(a_command_has_no_privilege_and_no_stray_descriptor),
        cmocka_unit_test(nothing_of_the_system_can_be_written),
        cmocka_unit_test(dangerous_system_calls_are_refused_without_a_kill),
        cmocka_unit_test(the_network_is_off),
        cmocka_unit_test(the_usual_programs_run),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(filling_every_volume_does_not_break_the_session),
        cmocka_unit_test(limits_change_while_it_runs),
        cmocka_unit_test(the_cpu_quota_holds),
        cmocka_unit_test(shared_memory_goes_with_its_last_user),
        cmocka_unit_test(the_devpts_descriptor_makes_terminals),
        cmocka_unit_test(a_host_path_belongs_to_its_owner_on_both_sides),
        cmocka_unit_test(a_host_path_outside_the_rules_is_refused),
        cmocka_unit_test(a_workspace_can_be_mounted_elsewhere),
        cmocka_unit_test(a_writable_root_takes_files),
        cmocka_unit_test(a_sandbox_makes_few_file_systems),
        cmocka_unit_test(what_is_not_built_is_refused_by_name),
    };
    return cmocka_run_group_tests_name("namespace", tests, start, stop);
}
