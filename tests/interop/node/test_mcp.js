// The official client of the Model Context Protocol against boxcli mcp; with_boxd.py starts the server.
'use strict';
const assert = require('node:assert');
const { spawn, execFileSync } = require('node:child_process');
const path = require('node:path');
const { afterEach, test: nodeTest } = require('node:test');

const [BIN, MODULES] = process.env.BOX_MCP.split('|');
const load = (name) => require(require.resolve(name, { paths: [MODULES] }));
const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = load('@modelcontextprotocol/sdk/client/stdio.js');
const BOXCLI = path.join(BIN, 'boxcli');
const WAIT_MS = 30000; // for anything that should happen soon: a limit, not a pause
const test = (name, fn) => nodeTest(name, { timeout: 3 * WAIT_MS }, fn);
const environment = Object.fromEntries(Object.entries(process.env)
  .filter(([k]) => k.startsWith('BOX_') || k.endsWith('SAN_OPTIONS') || k === 'PATH'));
const boxcli = (...args) => execFileSync(BOXCLI, args, { encoding: 'utf8', env: environment });
const sessions = () => boxcli('session', 'list', '--state', 'running', '--ids').split('\n').filter(Boolean);
const open = [];

async function connect(...args) {
  const client = new Client({ name: 'box-test', version: '1' });
  const transport = new StdioClientTransport({ command: BOXCLI, args: ['mcp', ...args], env: environment });
  client.onerror = (error) => { throw error; };
  await client.connect(transport);
  open.push(client);
  return client;
}

const text = (result) => result.content.map((c) => c.text).join('');
const call = (client, name, args, options) =>
  client.callTool({ name, arguments: args }, undefined, options);
const until = async (condition, what) => {
  const end = Date.now() + WAIT_MS;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `not soon: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

afterEach(async () => {
  for (const client of open.splice(0)) await client.close();
  for (const id of sessions()) boxcli('session', 'delete', '--allow-missing', id);
});

test('initialize, tools/list, ping', async () => {
  const client = await connect();
  assert.strictEqual(client.getServerVersion().name, 'box');
  assert.deepStrictEqual(client.getServerCapabilities(), { tools: {} });
  assert.match(client.getInstructions(), /\/workspace/);
  await client.ping();
  const { tools } = await client.listTools();
  const byName = Object.fromEntries(tools.map((t) => [t.name, t]));
  assert.deepStrictEqual(byName.exec.inputSchema.required, ['command']);
  assert.strictEqual(byName.exec.annotations.readOnlyHint, false);
  for (const name of ['python_executor', 'shell_executor']) assert.ok(byName[name].description.length > 20);
});

test('tools are called in one session, which goes with the client', async () => {
  const client = await connect('--pids', '50');
  assert.deepStrictEqual(sessions(), []);
  const made = await call(client, 'exec', { command: 'echo kept >file; echo made' });
  assert.strictEqual(text(made), 'made\n');
  assert.strictEqual(made.isError, false);
  assert.strictEqual(made.structuredContent.exit_code, 0);
  assert.strictEqual(text(await call(client, 'exec', { command: 'cat file' })), 'kept\n');
  assert.strictEqual(text(await call(client, 'python_executor', { code: 'print(6*7)' })), '42\n');
  const [id, ...others] = sessions();
  assert.match(id, /^mcp-/);
  assert.deepStrictEqual(others, []);
  assert.match(boxcli('session', 'get', '--json', id), /"pidsLimit": 50/);
  await client.close();
  await until(() => sessions().length === 0, 'the session is gone');
});

test('files', async () => {
  const client = await connect();
  const wrote = await call(client, 'write', { path: 'a/b.txt', content: 'one\ntwo\n' }); // makes the session too
  assert.deepStrictEqual([wrote.isError, wrote.structuredContent.path], [false, '/workspace/a/b.txt']);
  assert.strictEqual(text(await call(client, 'read', { path: 'a/b.txt' })), 'one\ntwo');
  assert.match(text(await call(client, 'edit', { path: 'a/b.txt', old_string: 'two', new_string: '2' })), /-two\n\+2/);
  assert.strictEqual(text(await call(client, 'grep', { pattern: '2', include: '*.txt' })), '/workspace/a/b.txt:2:2\n');
  assert.strictEqual(text(await call(client, 'glob', { pattern: '**/*.txt' })), '/workspace/a/b.txt\n');
  const missing = await call(client, 'read', { path: 'none' });
  assert.deepStrictEqual([missing.isError, missing.structuredContent.ok], [true, false]);
  const { tools } = await client.listTools();
  assert.deepStrictEqual(tools.filter((t) => t.annotations.readOnlyHint).map((t) => t.name), ['glob', 'grep', 'read']);
});

test('a session that is named stays', async () => {
  const client = await connect('--session', 'mine');
  await call(client, 'shell_executor', { command: 'echo 1 >file' });
  await client.close();
  const again = await connect('--session', 'mine');
  assert.strictEqual(text(await call(again, 'shell_executor', { command: 'cat file' })), '1\n');
  boxcli('session', 'update', 'mine', '--tools', 'exec');
  assert.deepStrictEqual((await again.listTools()).tools.map((t) => t.name), ['exec']);
  const refused = await call(again, 'shell_executor', { command: 'true' });
  assert.strictEqual(refused.isError, true);
  assert.match(text(refused), /^PERMISSION: /);
});

test('what fails is an error of the tool, not of the protocol', async () => {
  const client = await connect();
  const failed = await call(client, 'exec', { command: 'echo out; echo err >&2; exit 3' });
  assert.strictEqual(failed.isError, true);
  assert.match(text(failed), /out\n\nstderr:\nerr\nexit code 3$/);
  assert.strictEqual(failed.structuredContent.exit_code, 3);
  const late = await call(client, 'exec', { command: 'sleep 60', timeout_sec: 1 });
  assert.deepStrictEqual([late.isError, text(late)], [true, 'killed after 1 s (timeout)']);
  const wrong = await call(client, 'exec', { cmd: 'x', timeout_sec: 'soon' });
  assert.strictEqual(wrong.isError, true);
  for (const field of ['command', 'cmd', 'timeout_sec']) assert.match(text(wrong), new RegExp(`arguments\\.${field}: `));
  const unknown = await call(client, 'no_such_tool', {});
  assert.deepStrictEqual([unknown.isError, /VALIDATION: tool: /.test(text(unknown))], [true, true]);
  assert.strictEqual(text(await call(client, 'exec', { command: 'echo on' })), 'on\n');
});

test('large output is cut and counted', async () => {
  const client = await connect();
  const result = await call(client, 'exec', { command: "python3 -c 'print(\"ä\" * 5000000, end=\"\")'" });
  const [, head, count, tail] = text(result).match(/^(ä+)\n\n\.\.\. \[(\d+) characters truncated\] \.\.\.\n\n(ä+)$/);
  assert.strictEqual(head.length + Number(count) + tail.length, 5000000);
  assert.strictEqual(text(result).length, 4000);
  assert.strictEqual(result.structuredContent.stdout_truncated, true);
});

test('large arguments', async () => {
  const client = await connect();
  const code = `x = ${JSON.stringify('y'.repeat(4 * 1024 * 1024))}\nprint(len(x))`;
  assert.strictEqual(text(await call(client, 'python_executor', { code })), '4194304\n');
});

test('a cancelled call ends its command and the rest goes on', async () => {
  const client = await connect('--max-parallel-execs', '4');
  await call(client, 'exec', { command: 'true' });
  const aborter = new AbortController();
  const cancelled = call(client, 'exec', { command: 'sleep 1000' }, { signal: aborter.signal });
  const running = () => JSON.parse(boxcli('session', 'get', '--json', sessions()[0])).session.activeExecs || 0;
  await until(() => running() === 1, 'it runs');
  aborter.abort('changed my mind');
  await assert.rejects(cancelled, /changed my mind/);
  await until(() => running() === 0, 'it was killed');
  assert.strictEqual(text(await call(client, 'exec', { command: 'echo on' })), 'on\n');
});

test('a hundred calls at once come back to whom they belong', async () => {
  const client = await connect('--max-parallel-execs', '8', '--pids', '500');
  await call(client, 'exec', { command: 'true' });
  for (let round = 0; round < 4; round++) {
    const results = await Promise.all([...Array(30).keys()].map((i) =>
      call(client, 'exec', { command: `echo ${round}-${i}` })));
    results.forEach((r, i) => assert.strictEqual(text(r), `${round}-${i}\n`));
  }
});

// A client that speaks by hand; lines that come back are parsed.
function speak(...args) {
  const child = spawn(BOXCLI, ['mcp', ...args], { env: environment, stdio: ['pipe', 'pipe', 'pipe'] });
  const said = { child, lines: [], stderr: '' };
  let rest = '';
  child.stdout.on('data', (data) => {
    rest += data;
    const parts = rest.split('\n');
    rest = parts.pop();
    said.lines.push(...parts.map((line) => JSON.parse(line)));
  });
  child.stderr.on('data', (data) => { said.stderr += data; });
  said.end = new Promise((resolve) => child.on('close', (code, signal) => resolve([code, signal])));
  said.send = (message) => child.stdin.write(typeof message === 'string' ? message
    : `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  said.answer = async (id) => {
    await until(() => said.lines.some((l) => l.id === id), `an answer to ${id}`);
    return said.lines.find((l) => l.id === id);
  };
  return said;
}
const hello = { id: 'init', method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'x', version: '1' } } };

test('versions are negotiated', async () => {
  for (const [asked, answered, structured] of [['2024-11-05', '2024-11-05', false],
    ['2025-06-18', '2025-06-18', true], ['2025-11-25', '2025-11-25', true], ['1999-01-01', '2025-11-25', true]]) {
    const s = speak();
    s.send({ ...hello, params: { ...hello.params, protocolVersion: asked } });
    assert.strictEqual((await s.answer('init')).result.protocolVersion, answered);
    s.send({ method: 'notifications/initialized' });
    s.send({ id: 1, method: 'tools/call', params: { name: 'exec', arguments: { command: 'echo hi' } } });
    assert.strictEqual('structuredContent' in (await s.answer(1)).result, structured);
    s.child.stdin.end();
    assert.deepStrictEqual(await s.end, [0, null]);
    assert.strictEqual(s.stderr, '');
  }
});

test('what is no message is answered, and nothing ends', async () => {
  const s = speak();
  s.send({ id: 0, method: 'tools/list' });
  assert.strictEqual((await s.answer(0)).error.code, -32600);
  s.send(hello);
  await s.answer('init');
  s.send('not json\n\n[]\n');
  await until(() => s.lines.filter((l) => l.id === null).length === 2, 'both are answered');
  assert.deepStrictEqual(s.lines.filter((l) => l.id === null).map((l) => l.error.code), [-32700, -32600]);
  for (const [id, message, code] of [[1, { method: 'resources/list' }, -32601],
    [2, { method: 'tools/call', params: {} }, -32602],
    [3, { method: 'tools/call', params: { name: 'exec', arguments: [] } }, -32602],
    [4, { method: 'tools/list', params: [] }, -32602], [5, { method: 'initialize', params: {} }, -32600]]) {
    s.send({ id, ...message });
    assert.strictEqual((await s.answer(id)).error.code, code, JSON.stringify(message));
  }
  s.send({ method: 'notifications/nothing' });
  s.send({ id: 99, result: {} });
  s.send({ method: 'notifications/cancelled', params: { requestId: 'none' } });
  s.send(`${'x'.repeat(10 * 1024 * 1024)}\n`);
  await until(() => s.lines.filter((l) => l.id === null).length === 3, 'a line that is too long is answered');
  for (const c of `${JSON.stringify({ jsonrpc: '2.0', id: 6, method: 'ping' })}\n`) s.send(c);
  assert.deepStrictEqual((await s.answer(6)).result, {});
  s.child.stdin.end();
  assert.deepStrictEqual(await s.end, [0, null]);
});

test('requests of a pipe are answered before the end', async () => {
  const s = speak();
  s.send(hello);
  s.send({ id: 1, method: 'tools/list' });
  s.child.stdin.end();
  assert.deepStrictEqual(await s.end, [0, null]);
  assert.deepStrictEqual(s.lines.map((l) => l.id).sort(), [1, 'init']);
});

test('at the end what runs is cancelled, and soon', async () => {
  const s = speak();
  s.send(hello);
  await s.answer('init');
  s.send({ id: 1, method: 'tools/call', params: { name: 'exec', arguments: { command: 'sleep 1000' } } });
  await until(() => sessions().length === 1, 'it runs');
  s.child.stdin.end();
  assert.deepStrictEqual(await s.end, [0, null]);
  assert.deepStrictEqual(s.lines.map((l) => l.id), ['init']);
  await until(() => sessions().length === 0, 'its session is gone');
});

test('a reader that goes away ends it', async () => {
  const s = speak();
  s.send(hello);
  await s.answer('init');
  s.child.stdout.destroy();
  const [code] = await s.end;
  assert.strictEqual(code, 128 + 13);
});

test('a server that is away is said so', async () => {
  const client = new Client({ name: 'box-test', version: '1' });
  const transport = new StdioClientTransport({ command: BOXCLI, args: ['mcp'],
    env: { ...environment, BOX_ENDPOINT: 'unix:/no/such/socket' } });
  await client.connect(transport); // the handshake needs no server
  open.push(client);
  await assert.rejects(client.listTools(), /RUNTIME_UNAVAILABLE/);
  const result = await call(client, 'exec', { command: 'true' });
  assert.strictEqual(result.isError, true);
  assert.match(text(result), /^RUNTIME_UNAVAILABLE: /);
});
