# Ruby's stock gRPC against boxd: boxd.rb STUBS.
$LOAD_PATH.unshift(ARGV[0])
require 'grpc'
require 'box/v1/control_services_pb'
require 'box/v1/exec_services_pb'

target = ENV.fetch('BOX_ENDPOINT')
tls = GRPC::Core::ChannelCredentials.new(File.read(ENV.fetch('BOX_CA')))
token = File.read(ENV.fetch('BOX_TOKEN_FILE')).strip
metadata = { 'authorization' => "Bearer #{token}" }

# The rpc Initialize becomes Ruby's constructor, so this stub is constructed by its base class's.
control = Box::V1::ControlService::Stub.allocate
GRPC::ClientStub.instance_method(:initialize).bind_call(control, target, tls)
exec = Box::V1::ExecService::Stub.new(target, tls)
health = control.health(Box::V1::HealthRequest.new, metadata: metadata)
puts health.available ? 'available' : 'not available'
command = Box::V1::Command.new(argv: ['sh', '-c', 'echo $((6*7))'])
print exec.exec(Box::V1::ExecRequest.new(command: command), metadata: metadata).stdout_data
begin
  control.health(Box::V1::HealthRequest.new)
rescue GRPC::BadStatus => e
  puts e.code
end
