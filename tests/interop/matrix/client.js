// Node's stock gRPC (@grpc/grpc-js) as a client of the matrix: client.js PROTO MODULES TARGET CA SCRIPT.
'use strict';
const fs = require('node:fs');

const [PROTO, MODULES, TARGET, CA, SCRIPT] = process.argv.slice(2);
const load = (name) => require(require.resolve(name, { paths: [MODULES] }));
const grpc = load('@grpc/grpc-js');
const protoLoader = load('@grpc/proto-loader');
const api = grpc.loadPackageDefinition(protoLoader.loadSync(PROTO, { keepCase: true, defaults: true })).boxtest.v1;
const credentials = grpc.credentials.createSsl(fs.readFileSync(CA));

const INITIAL = 'x-grpc-test-echo-initial', TRAILING = 'x-grpc-test-echo-trailing-bin';
const size = (answer) => answer.payload?.body.length ?? answer.aggregated_payload_size ?? 0;

// Resolves to what the call ended with; its "status" is the last event.
function run(client, spec) {
  const { requestStream, responseStream, requestDeserialize } = client[spec.method];
  const requests = spec.requests.map((r) => requestDeserialize(Buffer.from(r, 'base64')));
  const metadata = new grpc.Metadata();
  if (spec.initial) metadata.add(INITIAL, spec.initial);
  if (spec.trailing) metadata.add(TRAILING, Buffer.from(spec.trailing, 'base64'));
  const options = spec.timeoutMs ? { deadline: Date.now() + spec.timeoutMs } : {};
  const sizes = [];
  let headers = new grpc.Metadata();
  return new Promise((resolve) => {
    const onAnswer = (error, answer) => { if (!error) sizes.push(size(answer)); };
    const args = [...(requestStream ? [] : requests), metadata, options, ...(responseStream ? [] : [onAnswer])];
    const call = client[spec.method](...args);
    const goOn = () => {
      if (requests.length > 0) call.write(requests.shift());
      else call.end();
    };
    call.on('metadata', (m) => { headers = m; });
    call.on('error', () => {}); // its status is what is reported
    call.on('status', (s) => resolve({
      case: spec.case, code: s.code, message: s.details, sizes, initial: headers.get(INITIAL).join(),
      trailing: Buffer.concat(s.metadata.get(TRAILING)).toString('base64'),
    }));
    if (responseStream) call.on('data', (answer) => {
      sizes.push(size(answer));
      if (spec.cancel === 'response') call.cancel();
      else if (requestStream) goOn();
    });
    if (spec.cancel === 'begin') call.cancel();
    else if (requestStream && responseStream) goOn();
    else if (requestStream) for (let n = requests.length; n >= 0; n--) goOn();
  });
}

async function main() {
  for (const spec of JSON.parse(fs.readFileSync(SCRIPT, 'utf8')).calls) {
    const gzip = { 'grpc.default_compression_algorithm': grpc.compressionAlgorithms.gzip };
    const client = new api[spec.service](TARGET, credentials, spec.compress ? gzip : {});
    console.log(JSON.stringify(await run(client, spec)));
    client.close();
  }
}

main();
