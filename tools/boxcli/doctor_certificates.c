/* boxcli doctor: certificates in files, and until when they hold. */
#include <errno.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "doctor.h"

enum { MAX_CERTIFICATES = 4096 };

static int days_until(const ASN1_TIME *t)
{
    int days = 0;
    int seconds = 0;
    if (ASN1_TIME_diff(&days, &seconds, NULL, t) != 1)
        return INT32_MIN; /* no date at all */
    return seconds < 0 && days == 0 ? -1 : days;
}

/* Of a bundle the one that ends last: some roots in it are always over. */
static int read_dates(FILE *f, doctor_dates *out)
{
    X509 *cert;
    int n = 0;
    *out = (doctor_dates){.days_left = INT32_MIN, .days_to_begin = INT32_MAX};
    while (n < MAX_CERTIFICATES && (cert = PEM_read_X509(f, NULL, NULL, NULL)) != NULL) {
        int left = days_until(X509_get0_notAfter(cert));
        int begin = days_until(X509_get0_notBefore(cert));
        out->days_left = left > out->days_left ? left : out->days_left;
        out->days_to_begin = begin < out->days_to_begin ? begin : out->days_to_begin;
        X509_free(cert);
        n++;
    }
    ERR_clear_error(); /* the end of the file is one */
    return n;
}

static void check_file(doctor_row *row, const char *path, const char *fix)
{
    doctor_dates dates;
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        doctor_fail(row, "%s: %s", path, strerror(errno));
        doctor_fix(row, "%s", fix);
        return;
    }
    int n = read_dates(f, &dates);
    (void)fclose(f); /* only read */
    if (n > 0) {
        doctor_judge_dates(row, path, &dates, fix);
        return;
    }
    doctor_fail(row, "%s: no certificate in it", path);
    doctor_fix(row, "%s", fix);
}

static void check_ca(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    const char *path = doctor_setting(d->cli->ca, "BOX_CA");
    if (path == NULL)
        doctor_skip(row, "none named by --ca or BOX_CA: the system's hold");
    else
        check_file(row, path,
                   "name the CA of the server's certificate with --ca or BOX_CA (boxd renews its "
                   "own ca.pem when it starts)");
}

static void check_client(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    const char *path = doctor_setting(d->cli->cert, "BOX_CERT");
    if (path == NULL)
        doctor_skip(row, "none named by --cert or BOX_CERT");
    else
        check_file(row, path,
                   "get a new one from the CA in the server's tls.client_ca, name it with --cert "
                   "or BOX_CERT");
}

const doctor_check doctor_certificate_checks[] = {
    {.name = "CA certificate", .run = check_ca},
    {.name = "client certificate", .run = check_client},
    {0},
};
