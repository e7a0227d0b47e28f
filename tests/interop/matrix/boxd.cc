// grpc++ against boxd.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include <grpcpp/grpcpp.h>

#include "box/v1/control.grpc.pb.h"
#include "box/v1/exec.grpc.pb.h"

namespace {

std::string read_file(const char *path)
{
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

void must(const grpc::Status &status)
{
    if (status.ok())
        return;
    std::cerr << status.error_code() << ": " << status.error_message() << std::endl;
    std::exit(1);
}

} // namespace

int main()
{
    std::string token;
    std::ifstream(std::getenv("BOX_TOKEN_FILE")) >> token;
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = read_file(std::getenv("BOX_CA"));
    auto channel = grpc::CreateChannel(std::getenv("BOX_ENDPOINT"), grpc::SslCredentials(tls));
    auto control = box::v1::ControlService::NewStub(channel);
    auto exec = box::v1::ExecService::NewStub(channel);

    grpc::ClientContext first, second, third;
    first.AddMetadata("authorization", "Bearer " + token);
    box::v1::HealthResponse health;
    must(control->Health(&first, {}, &health));
    std::cout << (health.available() ? "available" : "not available") << std::endl;

    second.AddMetadata("authorization", "Bearer " + token);
    box::v1::ExecRequest request;
    for (const char *word : {"sh", "-c", "echo $((6*7))"})
        request.mutable_command()->add_argv(word);
    box::v1::ExecResponse answer;
    must(exec->Exec(&second, request, &answer));
    std::cout << answer.stdout_data() << std::flush;

    std::cout << control->Health(&third, {}, &health).error_code() << std::endl;
}
