# Opened, never written: that alone tells.
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname",
             "/proc/sys/kernel/randomize_va_space", "/proc/sys/vm/overcommit_memory",
             "/proc/sys/vm/drop_caches", "/proc/sys/fs/binfmt_misc/register",
             "/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces",
             "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/1/oom_score_adj",
             "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/fs/cgroup/cgroup.procs",
             "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/release_agent"):
    opens(path, os.O_WRONLY)
report()
