// Node's stock gRPC (@grpc/grpc-js) against the echo server.
'use strict';
const assert = require('node:assert');
const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, test: nodeTest } = require('node:test');

const [SERVER, PROTO, MODULES] = process.env.BOX_INTEROP.split('|');
const load = (name) => require(require.resolve(name, { paths: [MODULES] }));
const grpc = load('@grpc/grpc-js');
const protoLoader = load('@grpc/proto-loader');
const reflection = load('grpc-js-reflection-client');

const MIB = 1024 * 1024;
const WAIT_MS = 30000; // for anything that should happen soon: a limit, not a pause
const test = (name, fn) => nodeTest(name, { timeout: 2 * WAIT_MS }, fn);
const api = grpc.loadPackageDefinition(protoLoader.loadSync(PROTO, { keepCase: true, longs: Number, defaults: true }));
let folder, server, credentials, target, client;

function openssl(...args) {
  execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
}

before(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'box-interop-'));
  openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes',
    '-keyout', 'key.pem', '-out', 'cert.pem', '-days', '2', '-subj', '/CN=localhost',
    '-addext', 'subjectAltName=DNS:localhost');
  const file = (name) => path.join(folder, name);
  server = spawn(SERVER, ['--tls', '127.0.0.1:0', '--cert', file('cert.pem'), '--key', file('key.pem')],
    { stdio: ['ignore', 'pipe', fs.openSync(file('log'), 'w')] });
  const port = await new Promise((resolve, reject) => {
    let text = '';
    server.once('exit', (code) => reject(new Error(`server ended with ${code}`)));
    server.stdout.on('data', (piece) => {
      text += piece;
      const match = /ready tls=(\d+)/.exec(text);
      if (match) resolve(match[1]);
    });
  });
  credentials = grpc.credentials.createSsl(fs.readFileSync(file('cert.pem')));
  target = `localhost:${port}`;
  client = new api.box.test.v1.EchoService(target, credentials, {
    'grpc.max_receive_message_length': -1,
    'grpc.max_send_message_length': -1,
  });
});

after(async () => {
  client.close();
  const code = await new Promise((resolve) => {
    server.removeAllListeners('exit');
    server.once('exit', resolve);
    server.kill('SIGTERM');
  });
  const log = fs.readFileSync(path.join(folder, 'log'), 'utf8');
  fs.rmSync(folder, { recursive: true });
  assert.strictEqual(code, 0, log);
});

function unary(name, request, ...args) {
  return new Promise((resolve, reject) => {
    let answer, headers;
    const call = client[name](request, ...args, (error, a) => {
      if (error) reject(error);
      answer = a;
    });
    call.on('metadata', (m) => { headers = m; });
    call.on('status', (s) => resolve({ answer, headers, trailers: s.metadata })); // the last event
  });
}

async function all(stream) {
  const got = [];
  for await (const message of stream) got.push(message);
  return got;
}

async function until(condition) {
  const end = Date.now() + WAIT_MS;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `not soon: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const counters = async () => (await unary('GetCounters', {})).answer;

test('unary answers with the payload', async () => {
  const { answer } = await unary('Echo', { payload: Buffer.from('hello') });
  assert.strictEqual(answer.payload.toString(), 'hello');
});

test('server streams arrive whole and in order', async () => {
  const got = await all(client.Expand({ count: 1000, size: 1000 }));
  assert.deepStrictEqual(got.map((m) => m.index), [...Array(1000).keys()]);
});

test('client streams are answered at the half-close', async () => {
  const answer = await new Promise((resolve, reject) => {
    const call = client.Collect((error, a) => (error ? reject(error) : resolve(a)));
    for (let i = 0; i < 200; i++) call.write({ payload: Buffer.alloc(5000) });
    call.end();
  });
  assert.deepStrictEqual([answer.messages, answer.bytes], [200, 1000000]);
});

test('bidi answers each message at once and ends with the half-close', async () => {
  const call = client.Chat();
  const answers = call[Symbol.asyncIterator]();
  for (let i = 0; i < 50; i++) {
    call.write({ payload: Buffer.from(`${i}`) });
    assert.strictEqual((await answers.next()).value.payload.toString(), `${i}`);
  }
  call.end();
  assert.strictEqual((await answers.next()).done, true);
});

test('metadata goes both ways, text and binary', async () => {
  const sent = new grpc.Metadata();
  sent.add('x-echo-initial', 'a');
  sent.add('x-echo-initial', 'b');
  sent.add('x-echo-trailing-bin', Buffer.from([0, 1, 255]));
  sent.add('x-echo-trailing-bin', Buffer.from([7]));
  const { headers, trailers } = await unary('Echo', {}, sent);
  assert.deepStrictEqual(headers.get('x-echo-initial').join(', ').split(', '), ['a', 'b']);
  assert.deepStrictEqual(trailers.get('x-echo-trailing-bin'), [Buffer.from([0, 1, 255]), Buffer.from([7])]);
});

test('errors carry code, text and details', async () => {
  for (let code = 1; code <= 16; code++) {
    const failure = { code, message: `ä ${code} 100%`, reason: 'QUOTA', metadata: { max: '5' } };
    const error = await unary('Echo', { failure }).catch((e) => e);
    assert.strictEqual(error.code, code);
    assert.strictEqual(error.details, failure.message);
    const [details] = error.metadata.get('grpc-status-details-bin');
    assert.ok(details.includes('type.googleapis.com/google.rpc.ErrorInfo'));
    assert.ok(details.includes('QUOTA'));
  }
});

test('an error after messages comes after them', async () => {
  const call = client.Expand({ count: 3, failure: { code: 9, message: 'after' } });
  const got = [];
  call.on('data', (m) => got.push(m.index));
  const error = await new Promise((resolve) => call.on('error', resolve));
  assert.deepStrictEqual([error.code, got], [9, [0, 1, 2]]);
});

test('deadlines end calls', async () => {
  const error = await unary('Echo', { sleep_ms: 60000 }, { deadline: Date.now() + 200 }).catch((e) => e);
  assert.strictEqual(error.code, grpc.status.DEADLINE_EXCEEDED);
});

test('cancel reaches the handler', async () => {
  const { cancelled } = await counters();
  const call = client.Echo({ sleep_ms: 60000 }, () => {});
  await until(async () => (await counters()).calls_open > 1);
  call.cancel();
  await until(async () => (await counters()).cancelled > cancelled);
});

test('100 calls at once', async () => {
  const calls = [...Array(100).keys()].map((i) =>
    unary('Echo', { payload: Buffer.alloc(1 + i * 500, i), sleep_ms: 20 }));
  (await Promise.all(calls)).forEach(({ answer }, i) =>
    assert.ok(answer.payload.equals(Buffer.alloc(1 + i * 500, i))));
});

test('8 MiB both ways', async () => {
  const payload = Buffer.alloc(8 * MIB, 'abcdefg');
  const { answer } = await unary('Echo', { payload });
  assert.ok(answer.payload.equals(payload));
});

test('messages over the limit are refused', async () => {
  const error = await unary('Echo', { payload: Buffer.alloc(17 * MIB) }).catch((e) => e);
  assert.strictEqual(error.code, grpc.status.RESOURCE_EXHAUSTED);
  await unary('Echo', {});
});

test('a reader that stops holds the writer, and goes on later', async () => {
  const call = client.Expand({ count: 2000, size: 16384 });
  await new Promise((resolve) => call.once('data', (m) => { call.pause(); resolve(m); }));
  const { max_rss_kib: before } = await counters();
  assert.ok(before < 200 * 1024);
  let n = 1;
  call.on('data', () => { n++; });
  call.resume();
  await new Promise((resolve, reject) => call.on('end', resolve).on('error', reject));
  assert.strictEqual(n, 2000);
});

test('unknown methods are unimplemented', async () => {
  const error = await unary('Missing', {}).catch((e) => e);
  assert.strictEqual(error.code, grpc.status.UNIMPLEMENTED);
  const other = new grpc.Client(target, credentials);
  const unknown = await new Promise((resolve) => other.makeUnaryRequest(
    '/none.Service/None', (b) => b, (b) => b, Buffer.alloc(0), resolve));
  other.close();
  assert.strictEqual(unknown.code, grpc.status.UNIMPLEMENTED);
  assert.match(unknown.details, /none\.Service\/None/);
});

test('reflection lists and describes services', async () => {
  const reflected = new reflection.GrpcReflection(target, credentials);
  const services = await reflected.listServices();
  assert.ok(services.includes('box.test.v1.EchoService'));
  assert.ok(services.includes('grpc.health.v1.Health'));
  const methods = await reflected.listMethods('box.test.v1.EchoService');
  assert.ok(methods.some((m) => m.name === 'Chat' && m.definition.requestStream));
  // A client made of nothing but what reflection said.
  const descriptor = await reflected.getDescriptorBySymbol('box.test.v1.EchoService');
  const made = descriptor.getPackageObject({ keepCase: true });
  const fresh = new made.box.test.v1.EchoService(target, credentials);
  const answer = await new Promise((resolve, reject) =>
    fresh.Echo({ payload: Buffer.from('x') }, (e, a) => (e ? reject(e) : resolve(a))));
  fresh.close();
  assert.strictEqual(answer.payload.toString(), 'x');
});
