/* What is measured of a Box server. */
#pragma once

#include "session_calls.h"

int bench_program_read(const char *path, bench_program *out, box_error *err) BOX_MUST_USE;

/* Health. */
int bench_health(const load_target *t, unsigned connections, unsigned threads_each, size_t calls,
                 bench_case *out, box_error *err) BOX_MUST_USE;
/* Exec of the program, each thread in a session of its own on a connection of its own. */
int bench_exec(const load_target *t, const bench_program *program, unsigned threads, size_t calls,
               bench_case *out, box_error *err) BOX_MUST_USE;
/* CreateSession, Exec of /usr/bin/true, DeleteSession, to the last answer. */
int bench_lifecycle(const load_target *t, unsigned threads, size_t calls, bench_case *out,
                    box_error *err) BOX_MUST_USE;
/* CreateSession alone, each of `threads` again and again. */
int bench_create(const load_target *t, unsigned threads, size_t calls, bench_case *out,
                 box_error *err) BOX_MUST_USE;
