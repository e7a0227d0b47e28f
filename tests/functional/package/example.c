/* Runs a command in a fresh sandbox of a Box server and prints what it wrote:
 *
 *     cc example.c -o example $(pkg-config --cflags --libs box)
 *     BOX_ENDPOINT=dns:///localhost:5410 BOX_CA=ca.pem BOX_TOKEN_FILE=token ./example uname -a
 *
 * Ends with the command's exit code, or 125 when it could not be run. */
#include <stdio.h>
#include <string.h>

#include <box/v1/exec.client.h>

static int failed(const box_error *err)
{
    fprintf(stderr, "%s: %s\n", box_reason_name(err->reason), err->msg);
    return 125;
}

static int run(box_channel *channel, int argc, char **argv)
{
    const box_client_options options = {.timeout_ns = 60ULL * 1000000000};
    Box__V1__ExecRequest request = BOX__V1__EXEC_REQUEST__INIT;
    Box__V1__Command command = BOX__V1__COMMAND__INIT;
    Box__V1__ExecResponse *response = NULL;
    box_error err;

    command.n_argv = (size_t)argc;
    command.argv = argv;
    request.command = &command;
    if (box_v1_exec_service_exec(channel, &options, &request, &response, &err) < 0)
        return failed(&err);
    fwrite(response->stdout_data.data, 1, response->stdout_data.len, stdout);
    fwrite(response->stderr_data.data, 1, response->stderr_data.len, stderr);
    int code = response->verdict != NULL && box__v1__verdict__has_exit_code(response->verdict)
                   ? response->verdict->exit_code
                   : 125;
    box__v1__exec_response__free_unpacked(response, NULL);
    return code;
}

int main(int argc, char **argv)
{
    box_channel *channel;
    box_error err;

    if (argc < 2) {
        printf("libbox %s: usage: %s COMMAND [ARGUMENTS]\n", box_version(), argv[0]);
        return 2;
    }
    if (box_channel_new(NULL, NULL, &channel, &err) < 0)
        return failed(&err);
    int code = run(channel, argc - 1, argv + 1);
    box_channel_free(channel);
    return code;
}
