"""boxbench runs and reports every figure its README names. No figure is judged: this is no measurement.

    boxbench_test.py BOXBENCH [--rpc | --hostile]   without: the server is in the environment
"""

import json
import os
import subprocess
import sys
import tempfile

CASES = {"floor": ["spawn", "spawn_all", "clone"], "health": ["c1", "c10x10", "c100x10"],
         "exec": ["c1", "c16", "c50"], "create": ["c1", "c50"], "lifecycle": ["c1", "c8", "clean"], "warm": ["exec", "c1", "run"]}
SHAPES = ["c1x1", "c10x10", "c100x10", "c1x100", "stream"]


def report(boxbench, *flags, **env):
    done = subprocess.run([boxbench, "--quick", "--json", *flags], stdout=subprocess.PIPE, check=True,
                          timeout=240, env=dict(os.environ, **env))
    return json.loads(done.stdout)


def check_box(boxbench):
    r = report(boxbench)
    for group, names in CASES.items():
        for name in names:
            case = r[group][name]
            assert 0 < case["p50_us"] <= case["p95_us"] <= case["p99_us"], (group, name, case)
            assert case["rps"] > 0 and case["count"] > 0, (group, name, case)
    assert set(r["ratios"]) == {"exec_p50", "exec_p99_over_p50", "exec_rate_c50", "create_p99_c50_over_p50",
                                "lifecycle_p50", "warm_over_exec", "warm_run_over_exec"}, r["ratios"]
    assert all(v > 0 for v in r["ratios"].values()), r["ratios"]
    assert r["exec"]["c50"]["client_us"] > 0, r["exec"]
    check_idle(r["idle"], sessions=100)
    some = report(boxbench, "--only", "floor.spawn,health.c1")
    assert set(some) == {"machine", "floor", "health", "ratios"} and some["ratios"] == {}, some
    assert set(some["floor"]) == {"spawn", "spawn_all"} and "c1" in some["health"], some
    check_limit(boxbench)


def check_idle(idle, sessions):
    """Other work of the machine moves what the kernel takes, so that is only there."""
    assert idle["sessions"] == sessions and "stopped_by" not in idle, idle
    assert idle["boxd_resident_bytes"] > 1 << 20 and idle["pss_bytes_each"] > 0, idle
    assert "kernel_bytes_each" in idle and idle["create_seconds"] > 0 and idle["delete_seconds"] > 0, idle


def check_limit(boxbench):
    """256 sessions of a tenant are the default: there are no more, and it says why."""
    idle = report(boxbench, "--only", "idle", "--sessions", "3000")["idle"]
    assert (idle["sessions"], idle["stopped_by"]) == (256, "SESSION_LIMIT"), idle
    done = subprocess.run([boxbench, "--sessions", "0"], stderr=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode != 0 and b"--sessions" in done.stderr, done


def check_files(boxbench):
    r = report(boxbench, "--files")
    for case in (r["health"], r["read"]):
        assert 0 < case["p50_us"] <= case["p99_us"], case
    assert set(r["bytes_per_second"]) == {"openssl", "tls", "upload", "download"}, r
    assert set(r["ratios"]) == {"read_to_health", "upload_to_openssl", "download_to_openssl",
                                "upload_to_tls", "download_to_tls"}, r
    assert all(v > 0 for v in r["ratios"].values()), r
    assert 0 <= r["boxd_grown_bytes"] < 32 << 20, r
    up = r["bytes_per_second"]["upload"]
    assert abs(r["ratios"]["upload_to_openssl"] * r["bytes_per_second"]["openssl"] - up) < up / 1000, r


def check_files_without_openssl(boxbench):
    with tempfile.TemporaryDirectory() as nothing:
        r = report(boxbench, "--files", PATH=nothing)
    assert set(r["bytes_per_second"]) == {"upload", "download"}, r
    assert set(r["ratios"]) == {"read_to_health"}, r


def check_attach(boxbench):
    r = report(boxbench, "--attach")
    assert set(r["ratios"]) == {"attach_to_openssl", "attach_to_tls"}, r
    assert all(v > 0 for v in r["ratios"].values()), r
    assert 0 <= r["attach"]["readers_grown_bytes"] < 64 << 20, r


def check_rpc(boxbench):
    r = report(boxbench, "--rpc")
    for peer in "box", "grpcxx", "nghttpd":
        for shape in SHAPES:
            if (peer, shape) != ("nghttpd", "stream"):
                assert r["rpc"][peer][shape]["rps"] > 0, (peer, shape)
        assert r["rpc"][peer]["c1x1"]["p50_us"] > 0, peer
    for peer in "box", "grpcxx":
        assert r["rpc"][peer]["idle_connection_bytes"] > 0, peer
    assert len(r["ratios"]) == 8 and all(v > 0 for v in r["ratios"].values()), r["ratios"]


def check_hostile(boxbench):
    """Every attack was made; memory is what a machine's noise does not touch."""
    attacks = report(boxbench, "--hostile")["hostile"]
    assert len(attacks) == 14, sorted(attacks)
    for name, one in attacks.items():
        assert one["calls"]["count"] > 0 and one["p99_to_idle"] > 0 and one["connections"] > 0, (name, one)
        assert one["grown_bytes"] < 64 << 20, (name, one)
    assert attacks["rapid_reset"]["ended"] > 0 and attacks["hpack_bomb"]["ended"] > 0, attacks


def check_refusals(boxbench):
    done = subprocess.run([boxbench, "--rpc", "--servers", "/nonexistent"], stderr=subprocess.PIPE,
                          check=False, timeout=60)
    assert done.returncode == 1 and b"start box" in done.stderr, done


def main():
    if "--hostile" in sys.argv:
        if os.cpu_count() < 2:
            print("boxbench --hostile needs two processors")
            sys.exit(77)
        check_hostile(sys.argv[1])
    elif "--rpc" in sys.argv:
        if os.cpu_count() < 2:
            print("boxbench --rpc needs two processors")
            sys.exit(77)
        check_rpc(sys.argv[1])
        check_refusals(sys.argv[1])
    else:
        check_box(sys.argv[1])
        check_files(sys.argv[1])
        check_files_without_openssl(sys.argv[1])
        check_attach(sys.argv[1])


main()
