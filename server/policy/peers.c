#include "policy/peers.h"

#include <arpa/inet.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "rpc/peer_table.h"

enum { KEY_BYTES = BOX_PEER_KEY_BYTES };

typedef struct failing {
    box_time since; /* 0 = never */
    uint32_t failures;
} failing;

struct box_peers {
    uint32_t max_failures;
    box_peer_table *table; /* of failing */
};

static const box_time window = 60 * BOX_SECOND;

box_peers *box_peers_new(uint32_t max_failures)
{
    box_peers *p = box_alloc(sizeof *p);
    p->max_failures = max_failures;
    p->table = box_peer_table_new(BOX_AUTH_PEERS, sizeof(failing));
    return p;
}

void box_peers_free(box_peers *p)
{
    if (p == NULL)
        return;
    box_peer_table_free(p->table);
    free(p);
}

/* The address without its port: "127.0.0.1:40000", "[::1]:40000". */
static void make_key(const box_peer *peer, uint8_t key[KEY_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "";
    struct in_addr v4;
    struct in6_addr v6;
    memset(key, 0, KEY_BYTES);
    if (peer->is_unix) {
        key[0] = 'u';
        memcpy(key + 1, &peer->uid, sizeof peer->uid);
        return;
    }
    const char *text = peer->address != NULL ? peer->address : "";
    const char *start = text[0] == '[' ? text + 1 : text;
    size_t len = strcspn(start, text[0] == '[' ? "]" : ":");
    len = len < sizeof host ? len : sizeof host - 1;
    memcpy(host, start, len);
    if (inet_pton(AF_INET6, host, &v6) == 1 && !IN6_IS_ADDR_V4MAPPED(&v6)) {
        key[0] = '6';
        memcpy(key + 1, &v6, 8);
    } else if (inet_pton(AF_INET6, host, &v6) == 1) {
        key[0] = '4';
        memcpy(key + 1, v6.s6_addr + 12, 4);
    } else if (inet_pton(AF_INET, host, &v4) == 1) {
        key[0] = '4';
        memcpy(key + 1, &v4, 4);
    }
}

bool box_peers_failed(box_peers *p, const box_peer *peer, box_time now, uint32_t *retry_ms)
{
    uint8_t key[KEY_BYTES];
    make_key(peer, key);
    failing *s = box_peer_table_get(p->table, key, sizeof key, now);
    if (s->since == 0 || now >= box_time_add(s->since, window)) {
        s->since = now != 0 ? now : 1;
        s->failures = 0;
    }
    if (s->failures < p->max_failures) {
        s->failures++;
        return true;
    }
    *retry_ms = (uint32_t)(box_time_left(box_time_add(s->since, window), now) / BOX_MS + 1);
    return false;
}
