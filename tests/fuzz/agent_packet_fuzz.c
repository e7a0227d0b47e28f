/* Packets of the agent channel, read by either end, and START's text, which may also come in a
 * memfd. The first byte: who sent it, and how many descriptors came along. */
#include <assert.h>

#include "agent/packet.h"
#include "base/alloc.h"
#include "base/limits.h"
#include "fuzz.h"

/* The same command, as boxd would send it, has the same text. */
static void build(const box_agent_start *start, box_bytes text, char **argv, char **env,
                  const char *workdir)
{
    const box_agent_command command = {.id = 1,
                                       .argc = start->argc,
                                       .argv = (const char *const *)argv,
                                       .envc = start->envc,
                                       .env = (const char *const *)env,
                                       .workdir = workdir};
    BOX_AUTO(box_buf_done)
    box_buf packet = {.max_bytes = BOX_AGENT_PACKET_BYTES};
    box_error err = {0};
    box_agent_packet p;
    int memfd = -1;
    int rc = box_agent_start_build(&command, &packet, &memfd, &err);
    assert(rc == 0 && memfd == -1);
    rc = box_agent_packet_parse(box_buf_data(&packet), box_buf_len(&packet), 3, BOX_AGENT_FROM_BOXD,
                                &p, &err);
    assert(rc == 0 && p.text.len == text.len);
    assert(memcmp(p.text.data, text.data, text.len) == 0);
}

static void split(const box_agent_start *start, box_bytes text)
{
    BOX_AUTO(box_freep)
    char **argv = box_alloc_array((size_t)start->argc + 1, sizeof *argv);
    BOX_AUTO(box_freep)
    char **env = box_alloc_array((size_t)start->envc + 1, sizeof *env);
    const char *workdir = NULL;
    size_t bytes = 0;
    box_agent_text_split(start, text, argv, env, &workdir);
    assert(argv[start->argc] == NULL && env[start->envc] == NULL);
    for (uint32_t i = 0; i < start->argc; i++)
        bytes += strlen(argv[i]) + 1;
    for (uint32_t i = 0; i < start->envc; i++) {
        assert(strchr(env[i], '=') > env[i]);
        bytes += strlen(env[i]) + 1;
    }
    assert(workdir[0] == '/');
    assert(bytes + strlen(workdir) + 1 == text.len);
    if (text.len <= BOX_CHANNEL_INLINE_BYTES)
        build(start, text, argv, env, workdir);
}

/* The text of a START that says it is elsewhere: what follows the packet stands for the memfd. */
static void check_memfd(const box_agent_start *start, box_bytes text)
{
    box_error err;
    if (text.len == start->text_len && box_agent_text_check(start, text, &err) == 0)
        split(start, text);
}

static void check(const box_agent_packet *p, box_bytes in)
{
    box_error err;
    assert(p->header.size == in.len);
    switch (p->header.type) {
    case BOX_AGENT_HELLO:
        BOX_IGNORE(box_agent_hello_check(&p->body.hello, &err)); /* either is right */
        break;
    case BOX_AGENT_START:
        assert(p->body.start.argc >= 1 && p->body.start.argc <= BOX_MAX_ARGS);
        assert(p->body.start.envc <= BOX_MAX_ENV);
        if ((p->body.start.flags & BOX_START_TEXT_IN_MEMFD) == 0)
            split(&p->body.start, p->text);
        break;
    case BOX_AGENT_STARTED:
        assert(memchr(p->body.started.error.msg, '\0', BOX_ERROR_MSG) != NULL);
        break;
    case BOX_AGENT_MANAGE:
    case BOX_AGENT_INTRODUCED: {
        const box_agent_manage *m = &p->body.manage;
        assert(strnlen(m->name, sizeof m->name) - 1 < BOX_MAX_PROCESS_ID_BYTES);
        assert(m->line_len <= sizeof m->line && m->journal_bytes <= BOX_MAX_JOURNAL_BYTES);
        break;
    }
    case BOX_AGENT_MANAGED:
        assert(memchr(p->body.managed.error.msg, '\0', BOX_ERROR_MSG) != NULL);
        break;
    default:
        break;
    }
}

/* Sizes are 32 bits of an input that the fuzzer must guess: a header of 0 stands for the right one.
 */
static void fix_size(uint8_t *packet, size_t len)
{
    box_agent_header h;
    if (len < sizeof h)
        return;
    memcpy(&h, packet, sizeof h);
    if (h.size == 0)
        h.size = (uint32_t)len;
    memcpy(packet, &h, sizeof h);
}

static void parse(box_bytes in, size_t n_fds, box_agent_sender from)
{
    BOX_AUTO(box_freep)
    uint8_t *exact = fuzz_copy(in);
    fix_size(exact, in.len);
    box_agent_packet p;
    box_error err = {0};
    if (box_agent_packet_parse(exact, in.len, n_fds, from, &p, &err) < 0)
        assert(err.reason == BOX_PROTOCOL);
    else
        check(&p, in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    box_bytes in = {data, size};
    uint8_t first = fuzz_u8(&in);
    box_agent_sender from = (first & 1) != 0 ? BOX_AGENT_FROM_AGENT : BOX_AGENT_FROM_BOXD;
    if ((first & 2) == 0) {
        parse(in, first >> 2 & 7, from);
        return 0;
    }
    box_agent_start start = {.argc = 1 + fuzz_u8(&in) % 8u, .envc = fuzz_u8(&in) % 8u};
    start.text_len = (uint32_t)in.len;
    BOX_AUTO(box_freep)
    uint8_t *text = fuzz_copy(in);
    check_memfd(&start, (box_bytes){text, in.len});
    return 0;
}
