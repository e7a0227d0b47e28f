// A stock grpc++ server of boxtest.v1.TestService with the callback API, over TLS:
//
//     box-grpcxx-server CERT KEY
//
// Prints "ready tls=PORT" when it serves on 127.0.0.1. boxbench --rpc measures it beside ours; the
// matrix calls it with our client.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include "testing.grpc.pb.h"

namespace test = boxtest::v1;

// How a message came is shown to tests only: this is the door that grpc's own interoperability server uses.
uint32_t grpc_call_test_only_get_message_flags(grpc_call *call);

namespace grpc::testing {
class InteropServerContextInspector {
public:
    static bool was_compressed(const ServerContextBase &context)
    {
        const uint32_t compressed = 0x80000000U, was_compressed = 0x40000000U;
        return grpc_call_test_only_get_message_flags(context.call_.call) & (compressed | was_compressed);
    }
};
} // namespace grpc::testing

namespace {

// Not OK when the request came the other way than it says.
grpc::Status check_compressed(const grpc::CallbackServerContext &context, const test::SimpleRequest &request)
{
    using inspector = grpc::testing::InteropServerContextInspector;
    if (!request.has_expect_compressed() ||
        request.expect_compressed().value() == inspector::was_compressed(context))
        return grpc::Status::OK;
    return {grpc::StatusCode::INVALID_ARGUMENT, "the request came the other way"};
}

// Gives two fields back, one in the headers and one in the trailers.
void echo_metadata(grpc::CallbackServerContext *context)
{
    for (const auto &field : context->client_metadata()) {
        const std::string key(field.first.data(), field.first.size());
        const std::string value(field.second.data(), field.second.size());
        if (key == "x-grpc-test-echo-initial")
            context->AddInitialMetadata(key, value);
        else if (key == "x-grpc-test-echo-trailing-bin")
            context->AddTrailingMetadata(key, value);
    }
}

template <class Request> grpc::Status status_of(const Request &request)
{
    const auto &wanted = request.response_status();
    return {static_cast<grpc::StatusCode>(wanted.code()), wanted.message()};
}

// Sends the answers to request_, each after its interval; then answered() is called. Either way the call
// ends once.
template <class Reactor> class Answering : public Reactor {
public:
    explicit Answering(grpc::CallbackServerContext *context) : context_(context)
    {
        echo_metadata(context);
    }
    void OnWriteDone(bool ok) override
    {
        if (ok)
            next();
        else
            this->Finish(grpc::Status::CANCELLED);
    }
    void OnCancel() override { alarm_.Cancel(); }
    void OnDone() override { delete this; }

protected:
    virtual void answered() = 0;
    void answer()
    {
        sent_ = 0;
        if (request_.response_status().code() != 0)
            this->Finish(status_of(request_));
        else
            next();
    }
    test::StreamingOutputCallRequest request_;

private:
    void next()
    {
        if (sent_ == request_.response_parameters_size()) {
            answered();
            return;
        }
        const auto &wanted = request_.response_parameters(sent_++);
        const auto size = static_cast<size_t>(wanted.size());
        if (response_.payload().body().size() != size)
            response_.mutable_payload()->set_body(std::string(size, '\0'));
        if (wanted.interval_us() == 0)
            this->StartWrite(&response_);
        else
            wait(std::chrono::microseconds(wanted.interval_us()));
    }
    void wait(std::chrono::microseconds interval)
    {
        // Cancelled before the alarm is set: OnCancel came too early for it.
        if (context_->IsCancelled()) {
            this->Finish(grpc::Status::CANCELLED);
            return;
        }
        alarm_.Set(std::chrono::system_clock::now() + interval, [this](bool ok) {
            if (ok)
                this->StartWrite(&response_);
            else
                this->Finish(grpc::Status::CANCELLED);
        });
    }

    grpc::CallbackServerContext *context_;
    test::StreamingOutputCallResponse response_;
    int sent_ = 0;
    grpc::Alarm alarm_;
};

class Output final : public Answering<grpc::ServerWriteReactor<test::StreamingOutputCallResponse>> {
public:
    Output(grpc::CallbackServerContext *context, const test::StreamingOutputCallRequest *request)
        : Answering(context)
    {
        request_ = *request;
        answer();
    }

private:
    void answered() override { Finish(grpc::Status::OK); }
};

class Duplex final : public Answering<grpc::ServerBidiReactor<test::StreamingOutputCallRequest,
                                                              test::StreamingOutputCallResponse>> {
public:
    explicit Duplex(grpc::CallbackServerContext *context) : Answering(context)
    {
        StartRead(&request_);
    }
    void OnReadDone(bool ok) override
    {
        if (ok)
            answer();
        else
            Finish(grpc::Status::OK);
    }

private:
    void answered() override { StartRead(&request_); }
};

class Input final : public grpc::ServerReadReactor<test::StreamingInputCallRequest> {
public:
    explicit Input(test::StreamingInputCallResponse *response) : response_(response)
    {
        StartRead(&request_);
    }
    void OnReadDone(bool ok) override
    {
        if (!ok) {
            response_->set_aggregated_payload_size(total_);
            Finish(grpc::Status::OK);
            return;
        }
        total_ += static_cast<int>(request_.payload().body().size());
        StartRead(&request_);
    }
    void OnDone() override { delete this; }

private:
    test::StreamingInputCallResponse *response_;
    test::StreamingInputCallRequest request_;
    int total_ = 0;
};

grpc::ServerUnaryReactor *finish(grpc::CallbackServerContext *context, const grpc::Status &status)
{
    auto *reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
}

class Service final : public test::TestService::CallbackService {
    grpc::ServerUnaryReactor *Nothing(grpc::CallbackServerContext *context, const test::Empty *,
                                      test::Empty *) override
    {
        return finish(context, grpc::Status::OK);
    }
    grpc::ServerUnaryReactor *EmptyCall(grpc::CallbackServerContext *context, const test::Empty *,
                                        test::Empty *) override
    {
        return finish(context, grpc::Status::OK);
    }
    grpc::ServerUnaryReactor *UnaryCall(grpc::CallbackServerContext *context,
                                        const test::SimpleRequest *request,
                                        test::SimpleResponse *response) override
    {
        echo_metadata(context);
        if (request->response_compressed().value())
            context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
        response->mutable_payload()->mutable_body()->resize(request->response_size());
        const grpc::Status refused = check_compressed(*context, *request);
        return finish(context, refused.ok() ? status_of(*request) : refused);
    }
    grpc::ServerWriteReactor<test::StreamingOutputCallResponse> *
    StreamingOutputCall(grpc::CallbackServerContext *context,
                        const test::StreamingOutputCallRequest *request) override
    {
        return new Output(context, request);
    }
    grpc::ServerReadReactor<test::StreamingInputCallRequest> *
    StreamingInputCall(grpc::CallbackServerContext *,
                       test::StreamingInputCallResponse *response) override
    {
        return new Input(response);
    }
    grpc::ServerBidiReactor<test::StreamingOutputCallRequest, test::StreamingOutputCallResponse> *
    FullDuplexCall(grpc::CallbackServerContext *context) override
    {
        return new Duplex(context);
    }
};

std::string read_file(const char *path)
{
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fputs("box-grpcxx-server CERT KEY\n", stderr);
        return 2;
    }
    grpc::SslServerCredentialsOptions tls;
    tls.pem_key_cert_pairs.push_back({read_file(argv[2]), read_file(argv[1])});
    Service service;
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port);
    builder.RegisterService(&service);
    auto server = builder.BuildAndStart();
    if (!server)
        return 1;
    std::printf("ready tls=%d\n", port);
    std::fflush(stdout);
    server->Wait();
}
