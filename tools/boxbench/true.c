/* The smallest program there is: no C library, no start-up, exit 0. What the floor and the sandbox
 * run, so that what is measured is Box and not a loader. x86-64 and aarch64. */
void _start(void);

void _start(void)
{
#if defined(__x86_64__)
    __asm__ volatile("syscall" : : "a"(60), "D"(0) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long number __asm__("x8") = 93;
    register long code __asm__("x0") = 0;
    __asm__ volatile("svc 0" : : "r"(number), "r"(code) : "memory");
#else
#error "add the exit system call of this machine"
#endif
    __builtin_unreachable();
}
