// grpc++ as a client of the matrix: client TARGET CA SCRIPT (script.proto).
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include "script.pb.h"
#include "testing.grpc.pb.h"

namespace test = boxtest::v1;

namespace {

const char initial_key[] = "x-grpc-test-echo-initial";
const char trailing_key[] = "x-grpc-test-echo-trailing-bin";

int size_of(const test::Empty &)
{
    return 0;
}

int size_of(const test::StreamingInputCallResponse &answer)
{
    return answer.aggregated_payload_size();
}

template <class Answer> int size_of(const Answer &answer)
{
    return static_cast<int>(answer.payload().body().size());
}

// A call under way: the channel's stubs, its context, and what it reports.
struct Running {
    const test::ScriptCall &call;
    test::TestService::Stub &stub;
    test::UnimplementedService::Stub &unimplemented;
    grpc::ClientContext context;
    test::ScriptOutcome outcome;

    template <class Message> Message request(int i)
    {
        Message message;
        if (!message.ParseFromString(call.requests(i)))
            std::abort();
        return message;
    }
    template <class Answer> grpc::Status saw(const grpc::Status &status, const Answer &answer)
    {
        if (status.ok())
            outcome.add_sizes(size_of(answer));
        return status;
    }
};

template <class Request, class Answer, class Stub>
grpc::Status unary(Running &r, Stub &stub,
                   grpc::Status (Stub::*method)(grpc::ClientContext *, const Request &, Answer *))
{
    Answer answer;
    return r.saw((stub.*method)(&r.context, r.request<Request>(0), &answer), answer);
}

grpc::Status streaming_input(Running &r)
{
    test::StreamingInputCallResponse answer;
    auto stream = r.stub.StreamingInputCall(&r.context, &answer);
    if (r.call.cancel() == "begin")
        r.context.TryCancel();
    for (int i = 0; i < r.call.requests_size(); i++)
        if (!stream->Write(r.request<test::StreamingInputCallRequest>(i)))
            break; // Finish tells why
    stream->WritesDone();
    return r.saw(stream->Finish(), answer);
}

grpc::Status streaming_output(Running &r)
{
    test::StreamingOutputCallResponse answer;
    auto stream = r.stub.StreamingOutputCall(&r.context, r.request<test::StreamingOutputCallRequest>(0));
    while (stream->Read(&answer))
        r.outcome.add_sizes(size_of(answer));
    return stream->Finish();
}

grpc::Status full_duplex(Running &r)
{
    test::StreamingOutputCallResponse answer;
    auto stream = r.stub.FullDuplexCall(&r.context);
    bool lives = true;
    for (int i = 0; lives && i < r.call.requests_size(); i++) {
        lives = stream->Write(r.request<test::StreamingOutputCallRequest>(i)) && stream->Read(&answer);
        if (lives)
            r.outcome.add_sizes(size_of(answer));
    }
    if (r.call.cancel() == "response")
        r.context.TryCancel();
    else if (lives)
        stream->WritesDone();
    while (stream->Read(&answer))
        r.outcome.add_sizes(size_of(answer));
    return stream->Finish();
}

grpc::Status start(Running &r)
{
    const std::map<std::string, std::function<grpc::Status()>> methods = {
        {"TestService.EmptyCall", [&] { return unary(r, r.stub, &test::TestService::Stub::EmptyCall); }},
        {"TestService.UnaryCall", [&] { return unary(r, r.stub, &test::TestService::Stub::UnaryCall); }},
        {"TestService.UnimplementedCall",
         [&] { return unary(r, r.stub, &test::TestService::Stub::UnimplementedCall); }},
        {"UnimplementedService.UnimplementedCall",
         [&] { return unary(r, r.unimplemented, &test::UnimplementedService::Stub::UnimplementedCall); }},
        {"TestService.StreamingInputCall", [&] { return streaming_input(r); }},
        {"TestService.StreamingOutputCall", [&] { return streaming_output(r); }},
        {"TestService.FullDuplexCall", [&] { return full_duplex(r); }},
    };
    return methods.at(r.call.service() + "." + r.call.method())();
}

std::string value_of(const std::multimap<grpc::string_ref, grpc::string_ref> &metadata, const char *key)
{
    auto at = metadata.find(key);
    return at == metadata.end() ? "" : std::string(at->second.data(), at->second.size());
}

void run(Running &r)
{
    if (!r.call.initial().empty())
        r.context.AddMetadata(initial_key, r.call.initial());
    if (!r.call.trailing().empty())
        r.context.AddMetadata(trailing_key, r.call.trailing());
    if (r.call.compress())
        r.context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    if (r.call.timeout_ms() > 0)
        r.context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(r.call.timeout_ms()));
    const grpc::Status status = start(r);
    r.outcome.set_case_(r.call.case_());
    r.outcome.set_code(status.error_code());
    r.outcome.set_message(status.error_message());
    r.outcome.set_initial(value_of(r.context.GetServerInitialMetadata(), initial_key));
    r.outcome.set_trailing(value_of(r.context.GetServerTrailingMetadata(), trailing_key));
}

std::string read_file(const char *path)
{
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

} // namespace

int main(int argc, char **argv)
{
    test::Script script;
    if (argc != 4 || !google::protobuf::util::JsonStringToMessage(read_file(argv[3]), &script).ok()) {
        std::fputs("client TARGET CA SCRIPT\n", stderr);
        return 2;
    }
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = read_file(argv[2]);
    auto channel = grpc::CreateChannel(argv[1], grpc::SslCredentials(tls));
    auto stub = test::TestService::NewStub(channel);
    auto unimplemented = test::UnimplementedService::NewStub(channel);
    for (const auto &call : script.calls()) {
        Running r{call, *stub, *unimplemented, {}, {}};
        run(r);
        std::string line;
        if (!google::protobuf::util::MessageToJsonString(r.outcome, &line).ok())
            return 1;
        std::cout << line << std::endl;
    }
}
