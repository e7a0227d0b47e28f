#include "store/certificates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/fd.h"
#include "temp_dir.h"

typedef struct fixture {
    temp_dir dir;
    int fd;
} fixture;

static int setup(void **state)
{
    static fixture f;
    temp_dir_new(&f.dir);
    f.fd = open(f.dir.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = &f;
    return f.fd >= 0 ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;
    box_closep(&f->fd);
    temp_dir_remove(&f->dir);
    return 0;
}

static X509 *load(int dirfd, const char *name)
{
    FILE *file = fdopen(openat(dirfd, name, O_RDONLY | O_CLOEXEC), "r");
    assert_non_null(file);
    X509 *cert = PEM_read_X509(file, NULL, NULL, NULL);
    (void)fclose(file);
    assert_non_null(cert);
    return cert;
}

static void make(int fd, bool expect_made)
{
    bool made = !expect_made;
    box_error err = {0};
    assert_int_equal(box_dev_certificates(fd, &made, &err), 0);
    assert_int_equal(made, expect_made);
}

static void the_server_is_verified_by_the_ca_for_every_local_name(void **state)
{
    fixture *f = *state;
    make(f->fd, true);
    X509 *ca = load(f->fd, BOX_DEV_CA_FILE);
    X509 *server = load(f->fd, BOX_DEV_CERT_FILE);
    X509_STORE *roots = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    assert_true(X509_STORE_add_cert(roots, ca));
    assert_true(X509_STORE_CTX_init(ctx, roots, server, NULL));
    assert_true(X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_SSL_SERVER));
    assert_int_equal(X509_verify_cert(ctx), 1);
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    assert_int_equal(X509_check_host(server, "localhost", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(server, host, 0, 0, NULL), 1);
    assert_int_equal(X509_check_ip_asc(server, "127.0.0.1", 0), 1);
    assert_int_equal(X509_check_ip_asc(server, "::1", 0), 1);
    assert_int_equal(X509_check_host(server, "example.com", 0, 0, NULL), 0);
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(roots);
    X509_free(ca);
    X509_free(server);
}

static void the_key_is_for_its_owner_only(void **state)
{
    fixture *f = *state;
    struct stat st;
    make(f->fd, true);
    assert_int_equal(fstatat(f->fd, BOX_DEV_KEY_FILE, &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void what_is_there_stays(void **state)
{
    fixture *f = *state;
    make(f->fd, true);
    X509 *before = load(f->fd, BOX_DEV_CERT_FILE);
    make(f->fd, false);
    X509 *after = load(f->fd, BOX_DEV_CERT_FILE);
    assert_int_equal(X509_cmp(before, after), 0);
    X509_free(before);
    X509_free(after);
}

static void a_set_that_does_not_belong_together_is_made_anew(void **state)
{
    fixture *f = *state;
    static const char *const files[] = {BOX_DEV_CA_FILE, BOX_DEV_CERT_FILE, BOX_DEV_KEY_FILE};
    for (size_t i = 0; i < 3; i++) {
        box_error err;
        make(f->fd, true);
        assert_int_equal(unlinkat(f->fd, files[i], 0), 0);
        make(f->fd, true);
        assert_int_equal(box_fd_replace_file(f->fd, files[i], "broken", 6, 0600, &err), 0);
        make(f->fd, true);
        make(f->fd, false);
        assert_int_equal(unlinkat(f->fd, files[i], 0), 0);
    }
}

static void a_certificate_tells_when_it_ends(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    int64_t ns = 0;
    char path[64];
    make(f->fd, true);
    (void)snprintf(path, sizeof path, "%s/%s", f->dir.path, BOX_DEV_CERT_FILE);
    assert_int_equal(box_certificate_expires(path, &ns, &err), 0);
    int64_t days = (ns / 1000000000 - time(NULL)) / 86400;
    assert_in_range(days, 823, 825);
    (void)snprintf(path, sizeof path, "%s/%s", f->dir.path, BOX_DEV_KEY_FILE);
    assert_int_equal(box_certificate_expires(path, &ns, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    (void)snprintf(path, sizeof path, "%s/none.pem", f->dir.path);
    assert_int_equal(box_certificate_expires(path, &ns, &err), -1);
    assert_int_equal(err.reason, BOX_FILE_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_server_is_verified_by_the_ca_for_every_local_name,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(the_key_is_for_its_owner_only, setup, teardown),
        cmocka_unit_test_setup_teardown(a_certificate_tells_when_it_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_there_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(a_set_that_does_not_belong_together_is_made_anew, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
