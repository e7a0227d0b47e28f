// Node's stock gRPC (@grpc/grpc-js) against the real server; with_boxd.py starts it.
'use strict';
const assert = require('node:assert');
const crypto = require('node:crypto');
const fs = require('node:fs');
const { after, afterEach, before, test: nodeTest } = require('node:test');

const [PROTO_DIR, THIRD_PARTY, MODULES] = process.env.BOX_INTEROP.split('|');
const load = (name) => require(require.resolve(name, { paths: [MODULES] }));
const grpc = load('@grpc/grpc-js');
const protoLoader = load('@grpc/proto-loader');
const reflection = load('grpc-js-reflection-client');
const protobuf = load('protobufjs');

const MIB = 1024 * 1024;
const WAIT_MS = 30000; // for anything that should happen soon: a limit, not a pause
const test = (name, fn) => nodeTest(name, { timeout: 2 * WAIT_MS }, fn);
const OPTIONS = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 };
const loadProtos = (files, includeDirs) => grpc.loadPackageDefinition(protoLoader.loadSync(files,
  { keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true, includeDirs }));
const api = loadProtos(['control', 'session', 'exec', 'process', 'file', 'admin', 'tool'].map((n) => `box/v1/${n}.proto`),
  [PROTO_DIR, THIRD_PARTY]).box.v1;
const health = loadProtos(['grpc/health/v1/health.proto'], [THIRD_PARTY]).grpc.health.v1;
const target = process.env.BOX_ENDPOINT;
const token = fs.readFileSync(process.env.BOX_TOKEN_FILE, 'utf8').trim();
const tls = grpc.credentials.createSsl(fs.readFileSync(process.env.BOX_CA));
const clients = [];
let box;

// Stubs of all services, with a token in every call.
function connect(secret) {
  const credentials = secret ? grpc.credentials.combineChannelCredentials(tls,
    grpc.credentials.createFromMetadataGenerator((_, done) => {
      const metadata = new grpc.Metadata();
      metadata.set('authorization', `Bearer ${secret}`);
      done(null, metadata);
    })) : tls;
  const made = {};
  for (const name of ['Control', 'Session', 'Exec', 'Process', 'File', 'Admin', 'Tool']) {
    made[name] = new api[`${name}Service`](target, credentials, OPTIONS);
    clients.push(made[name]);
  }
  return made;
}

const unary = (client, method, request, ...args) => new Promise((resolve, reject) =>
  client[method](request, ...args, (error, answer) => (error ? reject(error) : resolve(answer))));
const exec = (what, fields = {}, client = box) => unary(client.Exec, 'Exec', {
  command: { ...(Array.isArray(what) ? { argv: what } : { shell_command: what }), ...fields.command },
  session_id: fields.session_id, spec: fields.spec, stdin_data: fields.stdin,
}, ...(fields.options ? [fields.options] : []));
const getSession = async (id) => (await unary(box.Session, 'GetSession', { session_id: id })).session;

async function until(condition, what) {
  const end = Date.now() + WAIT_MS;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < end, `not soon: ${what || condition}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

// google.rpc by its official numbers, so that they are not compared with our own files.
const rpcTypes = protobuf.parse(`
  syntax = "proto3"; package google.rpc;
  message Any { string type_url = 1; bytes value = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }
  message BadRequest {
    message FieldViolation { string field = 1; string description = 2; }
    repeated FieldViolation field_violations = 1;
  }
  message Duration { int64 seconds = 1; int32 nanos = 2; }
  message RetryInfo { Duration retry_delay = 1; }
  message QuotaFailure {
    message Violation { string subject = 1; string description = 2; }
    repeated Violation violations = 1;
  }`, { keepCase: true }).root;
function decode(name, bytes) {
  const type = rpcTypes.lookupType(`google.rpc.${name}`);
  return type.toObject(type.decode(bytes), { longs: Number, defaults: true });
}

// The error of a promise, with its google.rpc details taken apart.
async function failure(promise) {
  const error = await promise.then((a) => assert.fail(`no error but ${JSON.stringify(a)}`), (e) => e);
  assert.ok(error.metadata, error);
  const out = { code: error.code, text: error.details };
  const [bytes] = error.metadata.get('grpc-status-details-bin');
  if (bytes === undefined) return out;
  const status = decode('Status', bytes);
  assert.deepStrictEqual([status.code, status.message], [error.code, error.details]);
  for (const { type_url: url, value } of status.details) {
    const name = url.split('.').pop();
    out[name] = decode(name, value);
  }
  return out;
}

before(() => { box = connect(token); });

afterEach(async () => {
  const { sessions } = await unary(box.Session, 'ListSessions', { page_size: 1000 });
  for (const s of sessions)
    await unary(box.Session, 'DeleteSession', { session_id: s.session_id, allow_missing: true });
});

// The last method there is to call; with_boxd.py looks at how the server ended.
after(async () => {
  await unary(box.Control, 'Shutdown', {});
  await until(async () => {
    const code = await unary(box.Control, 'WhoAmI', {}).then(() => 0, (e) => e.code);
    return code === grpc.status.UNAVAILABLE;
  }, 'the server takes no calls');
  clients.forEach((c) => c.close());
});

test('a one-off run', async () => {
  const answer = await exec(['/usr/bin/python3', '-c', 'print(6*7)']);
  assert.strictEqual(answer.stdout_data.toString(), '42\n');
  assert.strictEqual(answer.verdict.status, 'VERDICT_STATUS_COMPLETED');
  assert.strictEqual(answer.verdict.exit_code, 0);
  assert.deepStrictEqual([answer.session_id, answer.session_created, answer.backend], ['', true, 'namespace']);
});

test('who, health, status, backends', async () => {
  const who = await unary(box.Control, 'WhoAmI', {});
  assert.deepStrictEqual([who.tenant_id, who.auth_method], ['default', 'AUTH_METHOD_TOKEN']);
  const works = await unary(box.Control, 'Health', {});
  assert.deepStrictEqual([works.name, works.available], ['namespace', true]);
  const status = await unary(box.Control, 'GetStatus', {});
  assert.deepStrictEqual([status.backend, status.profile, status.session_ttl.seconds], ['namespace', 'default', 300]);
  assert.ok(status.server.resident_bytes > MIB);
  const { backends } = await unary(box.Control, 'ListBackends', {});
  assert.deepStrictEqual(backends.map((b) => b.name), ['namespace']);
  const { backend } = await unary(box.Control, 'GetBackendInfo', { backend: 'namespace' });
  assert.ok(backend.guarantees.find((g) => g.name === 'seccomp').holds);
  assert.strictEqual((await unary(box.Control, 'Initialize', {})).initialized, true);
});

test('session ids, guidance, errors', async () => {
  const id = await unary(box.Session, 'ResolveSessionId',
    { id_template: '{launcher_type}_{launcher_id}_{x}', variables: { launcher_id: 'a/b' } });
  assert.deepStrictEqual([id.session_id, id.unknown_names], ['query_a/b_unknown', ['x']]);
  assert.match((await unary(box.Control, 'GetGuidance', {})).text, /\/workspace/);
  await failure(getSession('not-there'));
  const { errors } = await unary(box.Control, 'ListErrors', { session_id: 'not-there' });
  assert.deepStrictEqual([errors.at(-1).reason, errors.at(-1).method, errors.at(-1).metadata.id],
    ['SESSION_NOT_FOUND', '/box.v1.SessionService/GetSession', 'not-there']);
});

test('tools', async () => {
  const { tools } = await unary(box.Tool, 'ListTools', {});
  const definition = JSON.parse(tools.find((t) => t.name === 'exec').definition_json);
  assert.deepStrictEqual([definition.type, definition.function.parameters.required], ['function', ['command']]);
  const call = (tool, args, fields) => unary(box.Tool, 'CallTool',
    { tool, session_id: 'tools', arguments_json: JSON.stringify(args), ...fields });
  const answer = await call('exec', { command: 'echo hi; exit 2' }, { call_id: 'c1' });
  assert.deepStrictEqual([answer.status, answer.output, answer.error, answer.call_id, answer.session_created],
    ['TOOL_STATUS_ERROR', 'hi\n', 'exit code 2', 'c1', true]);
  assert.strictEqual(JSON.parse(answer.result_json).stdout, 'hi\n');
  const python = JSON.parse((await call('python_executor', { code: 'print(6*7)' })).result_json);
  assert.deepStrictEqual([python.status, python.output], ['success', '42\n']);
  const shell = JSON.parse((await call('shell_executor', { command: ['echo', '$HOME'] })).result_json);
  assert.strictEqual(shell.output, '$HOME\n');
  const wrong = await failure(call('exec', { cmd: 'x', timeout_sec: 'y' }));
  assert.deepStrictEqual(wrong.BadRequest.field_violations.map((v) => v.field).sort(),
    ['arguments.cmd', 'arguments.command', 'arguments.timeout_sec']);
});

test('the life of a session', async () => {
  const spec = { labels: { a: '1' }, pids_limit: 50, idle_ttl: { seconds: 60 } };
  const made = await unary(box.Session, 'CreateSession', { session_id: 'life', spec });
  assert.ok(made.created);
  assert.deepStrictEqual([made.session.state, made.session.spec.pids_limit, made.session.spec.labels],
    ['SESSION_STATE_RUNNING', 50, { a: '1' }]);
  assert.strictEqual((await unary(box.Session, 'CreateSession', { session_id: 'life' })).created, false);
  await exec('echo kept >file', { session_id: 'life' });
  assert.strictEqual((await exec('cat file', { session_id: 'life' })).stdout_data.toString(), 'kept\n');
  const updated = await unary(box.Session, 'UpdateSession',
    { session_id: 'life', spec: { labels: { b: '2' } }, update_mask: { paths: ['labels'] } });
  assert.deepStrictEqual(updated.session.spec.labels, { b: '2' });
  const extended = await unary(box.Session, 'ExtendSession', { session_id: 'life', duration: { seconds: 600 } });
  assert.ok(extended.session.expires_at.seconds > Date.now() / 1000 + 590);
  assert.ok((await getSession('life')).usage.memory_bytes > 0);
  const { sessions } = await unary(box.Session, 'ListSessions', { labels: { b: '' } });
  assert.deepStrictEqual(sessions.map((s) => s.session_id), ['life']);
  const stopped = await unary(box.Session, 'StopSession', { session_id: 'life' });
  assert.deepStrictEqual([stopped.session.state, stopped.session.stop_reason],
    ['SESSION_STATE_STOPPED', 'STOP_REASON_REQUESTED']);
  assert.ok((await unary(box.Session, 'DeleteSession', { session_id: 'life' })).deleted);
  const gone = await failure(getSession('life'));
  assert.deepStrictEqual([gone.code, gone.ErrorInfo.reason, gone.ErrorInfo.metadata],
    [grpc.status.NOT_FOUND, 'SESSION_NOT_FOUND', { kind: 'session', id: 'life' }]);
});

test('watching sessions', async () => {
  const events = [];
  const watch = box.Session.WatchSessions({ include_existing: true });
  watch.on('data', (e) => events.push(`${e.type.replace('SESSION_EVENT_TYPE_', '')} ${e.session ? e.session.session_id : ''}`));
  watch.on('error', () => {}); // cancelled below
  await until(() => events.includes('SYNCED '));
  await unary(box.Session, 'CreateSession', { session_id: 'seen' });
  await unary(box.Session, 'DeleteSession', { session_id: 'seen' });
  await until(() => events.includes('CREATED seen') && events.includes('DELETED seen'), events);
  watch.cancel();
});

test('tenants and tokens', async () => {
  await unary(box.Admin, 'CreateTenant', { tenant: { tenant_id: 'node', labels: { x: 'y' } } });
  const made = await unary(box.Admin, 'CreateToken',
    { tenant_id: 'node', name: 't', scopes: ['session.read', 'exec.write'], ttl: { seconds: 60 } });
  assert.match(made.secret, /^box_/);
  const other = connect(made.secret);
  const who = await unary(other.Control, 'WhoAmI', {});
  assert.deepStrictEqual([who.tenant_id, who.scopes, who.token_name], ['node', ['exec.write', 'session.read'], 't']);
  assert.strictEqual((await exec('echo hi', {}, other)).stdout_data.toString(), 'hi\n');
  const refused = await failure(unary(other.Admin, 'ListTenants', {}));
  assert.deepStrictEqual([refused.code, refused.ErrorInfo.reason, refused.ErrorInfo.metadata.rule],
    [grpc.status.PERMISSION_DENIED, 'PERMISSION', 'scope']);
  const acting = new grpc.Metadata();
  acting.set('box-tenant', 'node');
  assert.strictEqual((await unary(box.Control, 'WhoAmI', {}, acting)).acting_from_tenant_id, 'default');
  await unary(box.Admin, 'RevokeToken', { token_id: made.token.token_id });
  const revoked = await failure(unary(other.Control, 'WhoAmI', {}));
  assert.deepStrictEqual([revoked.code, revoked.ErrorInfo.domain], [grpc.status.UNAUTHENTICATED, 'box']);
  assert.ok((await unary(box.Admin, 'DeleteTenant', { tenant_id: 'node' })).deleted);
});

test('no token is told what to send', async () => {
  const refused = await failure(unary(connect('').Control, 'WhoAmI', {}));
  assert.strictEqual(refused.code, grpc.status.UNAUTHENTICATED);
  assert.match(refused.text, /Bearer/);
});

test('violations come all at once', async () => {
  const error = await failure(exec(['true'], {
    command: { timeout: { seconds: -1 }, workdir: 'x' }, spec: { pids_limit: 0, cpu_millis: 1 } }));
  assert.deepStrictEqual([error.code, error.ErrorInfo.reason], [grpc.status.INVALID_ARGUMENT, 'VALIDATION']);
  assert.deepStrictEqual(error.BadRequest.field_violations.map((v) => v.field).sort(),
    ['command.timeout', 'command.workdir', 'spec.cpu_millis', 'spec.pids_limit']);
});

test('refusals carry when to try again and which quota', async () => {
  await unary(box.Session, 'CreateSession', { session_id: 'busy' });
  const calls = [...Array(33)].map(() => box.Exec.Exec(
    { session_id: 'busy', command: { argv: ['sleep', '60'] } }, () => {}));
  await until(async () => (await getSession('busy')).queued_execs === 32);
  const error = await failure(exec(['true'], { session_id: 'busy' }));
  assert.deepStrictEqual([error.code, error.ErrorInfo.reason], [grpc.status.RESOURCE_EXHAUSTED, 'EXEC_QUEUE']);
  assert.ok(error.RetryInfo.retry_delay.seconds >= 1);
  assert.strictEqual(error.QuotaFailure.violations.length, 1);
  calls.forEach((c) => c.cancel());
});

test('verdicts: exit code, signal, timeout', async () => {
  assert.strictEqual((await exec('exit 3')).verdict.exit_code, 3);
  const killed = (await exec('kill -9 $$')).verdict;
  assert.deepStrictEqual([killed.signal, killed._exit_code], [9, undefined]);
  const late = (await exec('echo x; sleep 60', { command: { timeout: { nanos: 300e6 } } }));
  assert.deepStrictEqual([late.verdict.status, late.stdout_data.toString(), late.verdict.limits_hit],
    ['VERDICT_STATUS_TIMED_OUT', 'x\n', ['timeout']]);
});

// Messages of an ExecStream by kind, output joined.
function stream(start) {
  const call = box.Exec.ExecStream();
  const got = { call, stdout: Buffer.alloc(0), stderr: Buffer.alloc(0), kinds: [] };
  got.end = new Promise((resolve, reject) => call.on('end', () => resolve(got)).on('error', reject));
  got.end.catch(() => {}); // looked at by those who want it
  call.on('data', (m) => {
    got.kinds.push(m.response);
    if (m.response === 'stdout_data') got.stdout = Buffer.concat([got.stdout, m.stdout_data]);
    else if (m.response === 'stderr_data') got.stderr = Buffer.concat([got.stderr, m.stderr_data]);
    else got[m.response] = m[m.response];
  });
  call.write({ start });
  return got;
}

test('a stream on a terminal: keys, sizes, the end-of-file key', async () => {
  const s = stream({
    command: { shell_command: 'stty size; echo $TERM; read x; stty size; cat; exit 6' },
    terminal: { size: { rows: 33, columns: 99 }, term: 'vt100' },
  });
  await until(() => s.stdout.toString() === '33 99\r\nvt100\r\n');
  s.call.write({ resize: { rows: 5, columns: 6 } });
  s.call.write({ stdin_data: Buffer.from('hello\n') });
  await until(() => s.stdout.toString().endsWith('hello\r\n5 6\r\n'));
  s.call.write({ close_stdin: {} });
  await s.end;
  assert.deepStrictEqual([s.kinds.includes('stderr_data'), s.verdict.exit_code], [false, 6]);
});

test('a stream: dialogue, half-close, verdict last', async () => {
  const s = stream({ command: { shell_command: 'while read x; do echo "<$x>"; done; echo end >&2; exit 5' } });
  for (let i = 0; i < 20; i++) {
    s.call.write({ stdin_data: Buffer.from(`${i}\n`) });
    await until(() => s.stdout.toString().endsWith(`<${i}>\n`));
  }
  s.call.end();
  await s.end;
  assert.strictEqual(s.stderr.toString(), 'end\n');
  assert.deepStrictEqual([s.kinds[0], s.kinds.at(-1), s.verdict.exit_code], ['started', 'verdict', 5]);
});

test('a stream: signals and close_stdin', async () => {
  const s = stream({ command: { shell_command: 'trap "exit 9" TERM; echo ready; while :; do sleep 0.05; done' } });
  await until(() => s.stdout.toString() === 'ready\n');
  s.call.write({ signal: { number: 15 } });
  await s.end;
  assert.strictEqual(s.verdict.exit_code, 9);
  const cat = stream({ command: { argv: ['cat'] } });
  cat.call.write({ stdin_data: Buffer.from('x') });
  cat.call.write({ close_stdin: {} });
  await cat.end;
  assert.strictEqual(cat.stdout.toString(), 'x');
});

test('8 MiB in, 7 MiB out, and 8 MiB through a stream', async () => {
  const data = crypto.randomBytes(8 * MIB);
  const answer = await exec('cat', { stdin: data, command: { output_limit_bytes: 7 * MIB } });
  assert.strictEqual(answer.verdict.stdout_report.total_bytes, 8 * MIB);
  assert.strictEqual(answer.stdout_data.length, 7 * MIB);
  const head = answer.verdict.stdout_report.head_bytes;
  assert.ok(answer.stdout_data.subarray(0, head).equals(data.subarray(0, head)));
  const s = stream({ command: { argv: ['cat'] } });
  s.call.write({ stdin_data: data });
  s.call.end();
  await s.end;
  assert.ok(s.stdout.equals(data));
});

test('100 calls at once', async () => {
  const answers = await Promise.all([...Array(100).keys()].map((i) =>
    exec(`echo ${i}; exit ${i % 5}`, { session_id: `many-${i % 10}` })));
  answers.forEach((a, i) => assert.deepStrictEqual(
    [a.stdout_data.toString(), a.verdict.exit_code], [`${i}\n`, i % 5]));
});

test('a deadline kills the command', async () => {
  const error = await failure(exec(['sleep', '60'],
    { session_id: 'late', options: { deadline: Date.now() + 400 } }));
  assert.strictEqual(error.code, grpc.status.DEADLINE_EXCEEDED);
  await until(async () => (await getSession('late')).active_execs === 0);
  const left = await exec('cat /proc/[0-9]*/comm', { session_id: 'late' });
  assert.ok(!left.stdout_data.toString().includes('sleep'));
});

test('cancel kills the command', async () => {
  const call = box.Exec.Exec({ session_id: 'gone', command: { argv: ['sleep', '60'] } }, () => {});
  await until(async () => (await getSession('gone').catch(() => ({}))).active_execs === 1);
  call.cancel();
  await until(async () => (await getSession('gone')).active_execs === 0);
  const left = await exec('cat /proc/[0-9]*/comm', { session_id: 'gone' });
  assert.ok(!left.stdout_data.toString().includes('sleep'));
});

// One AttachManagedProcess call: its messages, and its end.
function attach(start) {
  const call = box.Process.AttachManagedProcess();
  const s = { call, kinds: [], stdout: Buffer.alloc(0), exited: null };
  s.end = new Promise((resolve, reject) => {
    call.on('data', (m) => {
      s.kinds.push(m.response);
      if (m.stdout_data) s.stdout = Buffer.concat([s.stdout, m.stdout_data.data]);
      if (m.exited) s.exited = m.exited;
    });
    call.on('end', resolve);
    call.on('error', reject);
  });
  call.write({ start });
  return s;
}

test('managed processes: each method', async () => {
  const session_id = 'processes';
  const process_id = 'cat';
  const call = (method, request) => unary(box.Process, method, { session_id, process_id, ...request });
  await unary(box.Session, 'CreateSession', { session_id });
  const { process } = await call('StartManagedProcess', { spec: { argv: ['cat'], env: { K: 'V' } } });
  assert.deepStrictEqual([process.state, process.ready, process.env_keys, process.spec.env],
    ['PROCESS_STATE_RUNNING', true, ['K'], {}]);
  assert.strictEqual((await failure(call('StartManagedProcess', { spec: { argv: ['cat'] } }))).code,
    grpc.status.ALREADY_EXISTS);
  const s = attach({ session_id, process_id, stdout_offset: 0, write: true });
  s.call.write({ stdin_data: Buffer.from('over there\n') });
  await until(() => s.stdout.toString() === 'over there\n');
  assert.strictEqual((await call('GetManagedProcess')).process.attached, true);
  const listed = await unary(box.Process, 'ListManagedProcesses', { session_id });
  assert.deepStrictEqual(listed.processes.map((p) => p.process_id), ['cat']);
  assert.strictEqual((await call('WaitManagedProcess', { timeout: { nanos: 1e8 } })).met, false);
  await call('SignalManagedProcess', { signal: { number: 28 } }); // SIGWINCH: ignored by default
  const stopped = (await call('StopManagedProcess')).process;
  assert.strictEqual(stopped.state, 'PROCESS_STATE_EXITED');
  await s.end;
  assert.ok(['signal', 'exit_code'].some((k) => s.exited[k] === stopped.verdict[k]));
  assert.deepStrictEqual([s.kinds[0], s.kinds.at(-1)], ['attached', 'exited']);
  assert.strictEqual((await call('WaitManagedProcess', { condition: 'WAIT_CONDITION_EXITED' })).met, true);
});

test('a port inside: a request, half-close, what follows', async () => {
  const session_id = 'port';
  await unary(box.Session, 'CreateSession', { session_id });
  const server = "import socket\ns = socket.create_server(('127.0.0.1', 8000))\nprint('up', flush=True)\n"
    + "c = s.accept()[0]\nwhile (b := c.recv(4096)): c.sendall(b.upper())\nc.sendall(b'end')";
  await unary(box.Process, 'StartManagedProcess',
    { session_id, process_id: 'server', spec: { argv: ['python3', '-c', server] } });
  const call = box.Session.PortForward();
  const kinds = [];
  let got = '';
  const end = new Promise((resolve, reject) => {
    call.on('data', (m) => {
      if (kinds.at(-1) !== m.response) kinds.push(m.response);
      if (m.data) got += m.data;
    });
    call.on('end', resolve);
    call.on('error', reject);
  });
  call.write({ start: { session_id, port: 8000, wait: { seconds: 20 } } });
  call.write({ data: Buffer.from('over there ') });
  await until(() => got === 'OVER THERE ', 'the answer');
  call.end();
  await end;
  assert.deepStrictEqual([kinds, got], [['started', 'data', 'closed'], 'OVER THERE end']);
});

test('every method of FileService', async () => {
  const session_id = 'node-files';
  await unary(box.Session, 'CreateSession', { session_id });
  const file = (method, fields) => unary(box.File, method, { session_id, ...fields });
  const data = crypto.randomBytes(5 * MIB);
  const sha256 = crypto.createHash('sha256').update(data).digest();

  const written = await file('WriteFile', { path: 'src/a.js', data: Buffer.from('let a = 1;\n') });
  assert.strictEqual(written.created, true);
  const read = await file('ReadFile', { path: 'src/a.js' });
  assert.deepStrictEqual([read.text, read.total_lines, read.truncated_by],
    ['let a = 1;', 1, 'TRUNCATED_BY_UNSPECIFIED']);
  const edited = await file('EditFile', { path: 'src/a.js',
    edits: [{ old_data: Buffer.from('1'), new_data: Buffer.from('2') }] });
  assert.match(edited.diff.toString(), /-let a = 1;\n\+let a = 2;\n/);
  assert.strictEqual((await file('StatFile', { path: 'src/a.js' })).info.kind, 'FILE_KIND_REGULAR');
  await file('MakeDirectory', { path: 'deep/er', parents: true });
  await file('MoveFile', { source_path: 'src/a.js', target_path: 'deep/er/b.js' });
  const globbed = await file('Glob', { pattern: '**/*.js' });
  assert.deepStrictEqual(globbed.matches.map((m) => m.path), ['/workspace/deep/er/b.js']);
  const found = await file('Grep', { pattern: 'a = \\d', include: ['*.js'] });
  assert.deepStrictEqual(found.matches.map((m) => [m.line.line_number, m.line.text]), [[1, 'let a = 2;']]);
  const listed = await file('ListDirectory', { path: 'deep', depth: 2 });
  assert.deepStrictEqual(listed.entries.map((e) => e.path),
    ['/workspace/deep/er', '/workspace/deep/er/b.js']);
  assert.strictEqual((await file('RemoveFile', { path: 'deep', recursive: true })).removed, 3);

  const uploaded = await new Promise((resolve, reject) => {
    const call = box.File.UploadFile((error, answer) => (error ? reject(error) : resolve(answer)));
    call.write({ start: { session_id, path: 'big', sha256, size_bytes: data.length } });
    for (let at = 0; at < data.length; at += MIB / 4) call.write({ data: data.subarray(at, at + MIB / 4) });
    call.end();
  });
  assert.deepStrictEqual([uploaded.received_bytes, uploaded.sha256.equals(sha256)], [data.length, true]);
  const parts = [];
  let done;
  for await (const m of box.File.DownloadFile({ session_id, path: 'big' })) {
    if (m.response === 'data') parts.push(m.data);
    if (m.response === 'done') done = m.done;
  }
  assert.ok(Buffer.concat(parts).equals(data));
  assert.ok(done.sha256.equals(sha256));
  await unary(box.Session, 'DeleteSession', { session_id });
});

test('health needs no token', async () => {
  const client = new health.Health(target, tls);
  clients.push(client);
  for (const service of ['', 'box.v1.ExecService'])
    assert.strictEqual((await unary(client, 'Check', { service })).status, 'SERVING');
  const unknown = await failure(unary(client, 'Check', { service: 'none' }));
  assert.strictEqual(unknown.code, grpc.status.NOT_FOUND);
});

test('reflection describes the API well enough to call it', async () => {
  const metadata = new grpc.Metadata();
  metadata.set('authorization', `Bearer ${token}`);
  for (const version of ['v1', 'v1alpha']) {
    const reflected = new reflection.GrpcReflection(target, tls, {}, version);
    const services = await reflected.listServices('*', metadata);
    for (const name of ['box.v1.ControlService', 'box.v1.ExecService', 'grpc.health.v1.Health'])
      assert.ok(services.includes(name), name);
    const methods = await reflected.listMethods('box.v1.ExecService', metadata);
    assert.ok(methods.some((m) => m.name === 'ExecStream' && m.definition.requestStream));
    const descriptor = await reflected.getDescriptorBySymbol('box.v1.ControlService', metadata);
    const made = descriptor.getPackageObject({ keepCase: true });
    const fresh = new made.box.v1.ControlService(target, tls);
    clients.push(fresh);
    assert.strictEqual((await unary(fresh, 'WhoAmI', {}, metadata)).tenant_id, 'default');
    const refused = await reflected.listServices('*').catch((e) => e);
    assert.match(String(refused.code || refused.message), /16|UNAUTHENTICATED/);
  }
});
