/* What the files of the store share; nobody else includes it. */
#pragma once

#include <sqlite3.h>

#include "loop/lock.h"
#include "store/store.h"

/* Statements are prepared once, at open. */
typedef enum box_statement {
    BOX_SQL_BEGIN,
    BOX_SQL_COMMIT,
    BOX_SQL_ROLLBACK,
    BOX_SQL_TENANT_COUNT,
    BOX_SQL_TENANT_INSERT,
    BOX_SQL_TENANT_GET,
    BOX_SQL_TENANT_UPDATE,
    BOX_SQL_TENANT_DELETE,
    BOX_SQL_TENANT_LIST,
    BOX_SQL_TOKEN_COUNT,
    BOX_SQL_TOKEN_INSERT,
    BOX_SQL_TOKEN_PRUNE,
    BOX_SQL_TOKEN_GET,
    BOX_SQL_TOKEN_REVOKE,
    BOX_SQL_TOKEN_LIST,
    BOX_SQL_TOKEN_USED,
    BOX_SQL_TOKEN_VALID,
    BOX_SQL_SESSION_PUT,
    BOX_SQL_SESSION_TOUCH,
    BOX_SQL_SESSION_DELETE,
    BOX_SQL_SESSION_PRUNE,
    BOX_SQL_SESSION_START,
    BOX_SQL_SESSION_LIST,
    BOX_SQL_COUNT
} box_statement;

struct box_store {
    int dirfd;
    int lock_fd;
    box_lock lock; /* held by every call: one connection */
    sqlite3 *db;
    sqlite3_stmt *statements[BOX_SQL_COUNT];
    box_uid instance;
};

/* SQLite's own text never holds values, only names of our tables. */
int box_store_fail(box_store *s, const char *what, box_error *err);

sqlite3_stmt *box_store_statement(box_store *s, box_statement which);
void box_store_bind_text(sqlite3_stmt *st, int at, const char *text);
void box_store_bind_int(sqlite3_stmt *st, int at, int64_t value);
void box_store_bind_blob(sqlite3_stmt *st, int at, const void *data, size_t len);
/* 1: a row; 0: done, and the statement is reset; -1. */
int box_store_step(box_store *s, sqlite3_stmt *st, box_error *err) BOX_MUST_USE;
/* Runs a statement that gives no rows, or whose rows do not matter. */
int box_store_run(box_store *s, sqlite3_stmt *st, box_error *err) BOX_MUST_USE;
/* The number in the only row of a statement. */
int box_store_count(box_store *s, sqlite3_stmt *st, int64_t *out, box_error *err) BOX_MUST_USE;
/* Copies a text column; cut at size, which writing made sure it fits. */
void box_store_column_text(sqlite3_stmt *st, int column, char *out, size_t size);

/* A transaction: commit when rc is 0, else roll back; returns rc, or -1. */
int box_store_begin(box_store *s, box_error *err) BOX_MUST_USE;
int box_store_end(box_store *s, int rc, box_error *err) BOX_MUST_USE;

/* Inside a transaction of the caller. */
int box_store_insert_tenant(box_store *s, const box_tenant *t, box_error *err) BOX_MUST_USE;
int box_store_insert_token(box_store *s, const box_token *t, box_error *err) BOX_MUST_USE;
void box_store_read_tenant(sqlite3_stmt *st, box_tenant *out);

/* Opens the database below the directory and brings it to this version. */
int box_store_migrate(box_store *s, box_error *err) BOX_MUST_USE;
