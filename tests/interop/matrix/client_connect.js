// connect-node's gRPC transport as a client of the matrix, without generated code:
// client_connect.js DESCRIPTOR-SET MODULES TARGET CA SCRIPT.
'use strict';
const fs = require('node:fs');

const [DESCRIPTORS, MODULES, TARGET, CA, SCRIPT] = process.argv.slice(2);
const load = (name) => require(require.resolve(name, { paths: [MODULES] }));
const { createFileRegistry, fromBinary } = load('@bufbuild/protobuf');
const { FileDescriptorSetSchema } = load('@bufbuild/protobuf/wkt');
const { createClient, ConnectError } = load('@connectrpc/connect');
const { compressionGzip, createGrpcTransport } = load('@connectrpc/connect-node');

const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, fs.readFileSync(DESCRIPTORS)));
const options = { baseUrl: `https://${TARGET}`, nodeOptions: { ca: fs.readFileSync(CA) } };
const plain = createGrpcTransport(options);
const compressing = createGrpcTransport({ ...options, sendCompression: compressionGzip });

const INITIAL = 'x-grpc-test-echo-initial', TRAILING = 'x-grpc-test-echo-trailing-bin';
const size = (answer) => answer.payload?.body.length ?? answer.aggregatedPayloadSize ?? 0;

async function converse(spec, abort, options, sizes) {
  const service = registry.getService(`boxtest.v1.${spec.service}`);
  const method = service.methods.find((m) => m.name === spec.method);
  const requests = spec.requests.map((r) => fromBinary(method.input, Buffer.from(r, 'base64')));
  const call = createClient(service, spec.compress ? compressing : plain)[method.localName];
  let answered;
  async function* feed() {
    for (const request of requests) {
      const answer = new Promise((resolve) => { answered = resolve; });
      yield request;
      if (method.methodKind === 'bidi_streaming') await answer;
    }
    if (spec.cancel) await new Promise(() => {});
  }
  const input = /client_streaming|bidi/.test(method.methodKind) ? feed() : requests[0];
  const started = call(input, options);
  if (spec.cancel === 'begin') abort.abort();
  if (/^(unary|client_streaming)$/.test(method.methodKind)) {
    sizes.push(size(await started));
    return;
  }
  for await (const answer of started) {
    sizes.push(size(answer));
    if (spec.cancel === 'response') abort.abort();
    else answered?.();
  }
}

async function run(spec) {
  const abort = new AbortController();
  const sizes = [];
  const seen = { headers: new Headers(), trailers: new Headers() };
  const headers = new Headers();
  if (spec.initial) headers.set(INITIAL, spec.initial);
  if (spec.trailing) headers.set(TRAILING, spec.trailing);
  const options = {
    headers, signal: abort.signal, timeoutMs: spec.timeoutMs || undefined,
    onHeader: (h) => { seen.headers = h; }, onTrailer: (t) => { seen.trailers = t; },
  };
  let code = 0, message = '';
  try {
    await converse(spec, abort, options, sizes);
  } catch (thrown) {
    ({ code, rawMessage: message } = ConnectError.from(thrown));
  }
  return {
    case: spec.case, code, message, sizes, initial: seen.headers.get(INITIAL) ?? '',
    trailing: seen.trailers.get(TRAILING) ?? '', encoding: seen.headers.get('grpc-encoding') ?? '',
  };
}

async function main() {
  for (const spec of JSON.parse(fs.readFileSync(SCRIPT, 'utf8')).calls) console.log(JSON.stringify(await run(spec)));
  process.exit(0); // the connection is kept for more calls
}

main();
