# Ruby's stock gRPC as a client of the matrix: client.rb STUBS TARGET CA SCRIPT.
require 'grpc'
require 'json'

stubs, target, ca, script = ARGV
$LOAD_PATH.unshift(stubs)
require 'testing_services_pb'

INITIAL = 'x-grpc-test-echo-initial'.freeze
TRAILING = 'x-grpc-test-echo-trailing-bin'.freeze

def size(answer)
  return answer.aggregated_payload_size if answer.respond_to?(:aggregated_payload_size)
  answer.respond_to?(:payload) ? answer.payload.body.bytesize : 0
end

# The requests of a stream, each after the answer to the one before where answers stream too. A call that
# is cancelled then has no last answer, so it is not half-closed.
def feed(spec, requests, answered)
  Enumerator.new do |out|
    requests.each do |request|
      out << request
      answered.pop if spec['method'] == 'FullDuplexCall'
    end
  end
end

def converse(spec, operation, answered, sizes)
  operation.cancel if spec['cancel'] == 'begin'
  answer = operation.execute
  return sizes << size(answer) unless answer.is_a?(Enumerator)
  answer.each do |one|
    sizes << size(one)
    spec['cancel'] == 'response' ? operation.cancel : answered << true
  end
end

def run(stub, rpc, spec)
  streams = rpc.input.is_a?(GRPC::RpcDesc::Stream)
  type = streams ? rpc.input.type : rpc.input
  requests = spec['requests'].map { |r| type.decode(r.unpack1('m')) }
  sent = { INITIAL => spec['initial'], TRAILING => spec['trailing'].unpack1('m') }.reject { |_, v| v.empty? }
  sent['grpc-internal-encoding-request'] = 'gzip' if spec['compress']
  deadline = Time.now + spec['timeoutMs'] / 1000.0 if spec['timeoutMs'] > 0
  answered, sizes = Queue.new, []
  input = streams ? feed(spec, requests, answered) : requests[0]
  operation = stub.send(GRPC::GenericService.underscore(spec['method'].dup), input,
                        metadata: sent, deadline: deadline, return_op: true)
  outcome = { 'case' => spec['case'], 'code' => 0, 'sizes' => sizes }
  begin
    converse(spec, operation, answered, sizes)
    trailers = operation.trailing_metadata
  rescue GRPC::BadStatus => e
    outcome.update('code' => e.code, 'message' => e.details)
    trailers = e.metadata
  end
  outcome.update('initial' => (operation.metadata || {})[INITIAL].to_s,
                 'trailing' => [(trailers || {})[TRAILING].to_s].pack('m0'))
end

credentials = GRPC::Core::ChannelCredentials.new(File.read(ca))
JSON.parse(File.read(script))['calls'].each do |spec|
  service = Boxtest::V1.const_get(spec['service'])
  rpc = service::Service.rpc_descs[spec['method'].to_sym]
  puts JSON.generate(run(service::Stub.new(target, credentials), rpc, spec))
  $stdout.flush
end
