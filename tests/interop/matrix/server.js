// Node's stock gRPC (@grpc/grpc-js) as a server of the matrix: server.js PROTO MODULES CERT KEY.
'use strict';
const fs = require('node:fs');

const [PROTO, MODULES, CERT, KEY] = process.argv.slice(2);
const load = (name) => require(require.resolve(name, { paths: [MODULES] }));
const grpc = load('@grpc/grpc-js');
const protoLoader = load('@grpc/proto-loader');
const api = grpc.loadPackageDefinition(protoLoader.loadSync(PROTO, { keepCase: true, defaults: true })).boxtest.v1;

const INITIAL = 'x-grpc-test-echo-initial', TRAILING = 'x-grpc-test-echo-trailing-bin';

// Gives INITIAL back in the headers; returns trailers with TRAILING.
function begin(call) {
  const headers = new grpc.Metadata(), trailers = new grpc.Metadata();
  for (const value of call.metadata.get(INITIAL)) headers.add(INITIAL, value);
  for (const value of call.metadata.get(TRAILING)) trailers.add(TRAILING, value);
  call.sendMetadata(headers);
  return trailers;
}

const payload = (bytes) => ({ body: Buffer.alloc(bytes) });

function failure(request, metadata) {
  const status = request.response_status;
  return status?.code ? { code: status.code, details: status.message, metadata } : null;
}

// All answers to one request; false when the call ended with an error instead.
async function answer(call, request, trailers) {
  const error = failure(request, trailers);
  if (error) {
    call.emit('error', error);
    return false;
  }
  for (const wanted of request.response_parameters) {
    if (wanted.interval_us) await new Promise((resolve) => setTimeout(resolve, wanted.interval_us / 1000).unref());
    call.write({ payload: payload(wanted.size) });
  }
  return true;
}

const handlers = {
  EmptyCall: (call, done) => done(null, {}, begin(call)),
  UnaryCall(call, done) {
    const trailers = begin(call);
    done(failure(call.request, trailers), { payload: payload(call.request.response_size) }, trailers);
  },
  async StreamingOutputCall(call) {
    const trailers = begin(call);
    if (await answer(call, call.request, trailers)) call.end(trailers);
  },
  StreamingInputCall(call, done) {
    let total = 0;
    call.on('data', (request) => { total += request.payload.body.length; });
    call.on('end', () => done(null, { aggregated_payload_size: total }));
  },
  FullDuplexCall(call) {
    const trailers = begin(call);
    let last = Promise.resolve(true);
    call.on('data', (request) => { last = last.then((goOn) => goOn && answer(call, request, trailers)); });
    call.on('end', () => last.then((goOn) => goOn && call.end(trailers)));
  },
};

const server = new grpc.Server();
const pair = { private_key: fs.readFileSync(KEY), cert_chain: fs.readFileSync(CERT) };
server.addService(api.TestService.service, handlers);
server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createSsl(null, [pair]), (error, port) => {
  if (error) throw error;
  console.log(`ready tls=${port}`);
});
