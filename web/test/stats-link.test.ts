/** How messages keep coming: WebSocket, one by one, and again after failures. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { protocolsOf, StatsLink, type Socket } from '../src/stats/link';
import { MessageError } from '../src/stats/message';
import type { Link } from '../src/stats/protocol';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

class FakeSocket implements Socket {
  binaryType: BinaryType = 'blob';
  onmessage: Socket['onmessage'] = null;
  onclose: Socket['onclose'] = null;
  closed = false;
  constructor(readonly url: string, readonly protocols: string[]) {}

  close(): void {
    this.closed = true;
  }

  message(...bytes: number[]): void {
    this.onmessage?.({ data: Uint8Array.from(bytes).buffer } as MessageEvent);
  }

  end(code = 1006): void {
    this.onclose?.({ code } as CloseEvent);
  }
}

class World {
  readonly sockets: FakeSocket[] = [];
  readonly links: Link[] = [];
  readonly messages: number[][] = [];
  readonly asked: Record<string, string>[] = [];
  answer: () => Response | Promise<Response> = () => Promise.reject(new TypeError('no network'));
  reject: MessageError | null = null;
  readonly link = new StatsLink({
    open: (url, protocols) => {
      const socket = new FakeSocket(url, protocols);
      this.sockets.push(socket);
      return socket;
    },
    fetch: (async (_url: string, { headers }: { headers: Record<string, string> }) => {
      this.asked.push(headers);
      return this.answer();
    }) as unknown as typeof fetch,
    clock: () => Date.now(),
    onMessage: (bytes) => {
      if (this.reject !== null) throw this.reject;
      this.messages.push([...bytes]);
    },
    onLink: (link) => this.links.push(link),
    random: () => 0.5,
  });

  connect(token: string | null = null): FakeSocket {
    this.link.connect({ socketUrl: 'ws://here/stream', url: 'http://here/stats', token });
    return this.socket;
  }

  get socket(): FakeSocket {
    return this.sockets.at(-1)!;
  }

  get state(): Link {
    return this.links.at(-1)!;
  }

  refuse(status: number, message: string): void {
    this.answer = () => new Response(JSON.stringify({ error: { message } }), { status });
  }
}

it('is live from the first message on', () => {
  const world = new World();
  const socket = world.connect();
  expect(world.state).toEqual({ state: 'connecting' });
  socket.message(1, 2);
  socket.message(3);
  expect(world.links.map(({ state }) => state)).toEqual(['connecting', 'live']);
  expect(world.messages).toEqual([[1, 2], [3]]);
  expect([socket.url, socket.protocols, socket.binaryType]).toEqual(['ws://here/stream', ['millstream.stats.v1'], 'arraybuffer']);
});

it('sends a token as a subprotocol, in characters that it may have', () => {
  expect(protocolsOf('secret')).toEqual(['millstream.stats.v1', 'bearer.c2VjcmV0']);
  expect(protocolsOf('ÿ?>~é')[1]).toMatch(/^bearer\.[\w-]+$/);
});

describe('after a loss', () => {
  it('comes back by itself, ever more slowly', async () => {
    const world = new World();
    world.connect().message(1);
    world.socket.end(1001);
    expect(world.state).toEqual({ state: 'lost', failures: 1, retryInMs: 1000, why: 'The server is stopping.' });
    const waits: number[] = [];
    for (let attempt = 2; attempt < 8; attempt += 1) {
      await vi.advanceTimersByTimeAsync(world.state.state === 'lost' ? world.state.retryInMs : 0);
      world.socket.end();
      await vi.advanceTimersByTimeAsync(0);
      if (world.state.state === 'lost') waits.push(world.state.retryInMs);
    }
    expect(waits).toEqual([2000, 4000, 8000, 10_000, 10_000, 10_000]);
    expect(world.state).toMatchObject({ why: 'The server cannot be reached.' });
    await vi.advanceTimersByTimeAsync(10_000);
    world.socket.message(1);
    expect(world.state).toEqual({ state: 'live' });
    world.socket.end();
    expect(world.state).toMatchObject({ failures: 1 });
  });

  it('of which nobody told, notices the silence', async () => {
    const world = new World();
    const socket = world.connect();
    socket.message(1);
    await vi.advanceTimersByTimeAsync(7_000);
    socket.message(2);
    await vi.advanceTimersByTimeAsync(7_000);
    expect(world.state.state).toBe('live');
    await vi.advanceTimersByTimeAsync(1_000);
    expect(world.state).toMatchObject({ state: 'lost', why: 'The server sends nothing any more.' });
    expect(socket.closed).toBe(true);
    socket.message(9);
    expect(world.messages).toEqual([[1], [2]]);
  });
});

describe('where the WebSocket does not open', () => {
  it('messages are asked for one by one, and the WebSocket is tried now and then', async () => {
    const world = new World();
    world.answer = () => new Response(Uint8Array.of(7));
    world.connect('t').end();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(world.state.state).toBe('asking');
    expect(world.messages.length).toBe(11);
    expect(world.asked[0]).toEqual({ Accept: 'application/vnd.msgpack, application/msgpack', Authorization: 'Bearer t' });
    expect(world.sockets.length).toBe(1);
    await vi.advanceTimersByTimeAsync(21_000);
    expect(world.sockets.length).toBe(2);
    world.socket.message(1);
    expect(world.state).toEqual({ state: 'live' });
    const asked = world.asked.length;
    await vi.advanceTimersByTimeAsync(5_000);
    expect(world.asked.length).toBe(asked);
  });

  it('a silent server is asked as well', async () => {
    const world = new World();
    world.answer = () => new Response(Uint8Array.of(7));
    world.connect();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(world.state.state).toBe('asking');
    expect(world.sockets[0]!.closed).toBe(true);
  });

  it.each([
    [401, 'unauthorized', 'Token, please.'],
    [403, 'forbidden', 'Not from here.'],
    [404, 'absent', 'This server has no live statistics.'],
  ])('because of %i, says so and asks rarely', async (status, kind, why) => {
    const world = new World();
    world.refuse(status, why);
    world.connect().end();
    await vi.advanceTimersByTimeAsync(14_000);
    expect(world.state).toEqual({ state: 'refused', kind, why });
    expect([world.sockets.length, world.asked.length]).toEqual([1, 1]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(world.sockets.length).toBe(2);
  });

  it('because there are too many, says so and tries again', async () => {
    const world = new World();
    world.refuse(503, 'There are too many subscribers.');
    world.connect().end();
    await vi.advanceTimersByTimeAsync(0);
    expect(world.state).toMatchObject({ state: 'lost', why: 'There are too many subscribers.' });
  });

  it('a refusal that is not ours is told by its status', async () => {
    const world = new World();
    world.answer = () => new Response('<html>', { status: 500 });
    world.connect().end();
    await vi.advanceTimersByTimeAsync(0);
    expect(world.state).toMatchObject({ state: 'lost', why: 'The server answered 500.' });
  });
});

describe('a message that cannot be read', () => {
  it('of another version ends the connection, with little hope', () => {
    const world = new World();
    world.reject = new MessageError('Version 2.', 2);
    const socket = world.connect();
    socket.message(1);
    expect(world.state).toEqual({ state: 'refused', kind: 'version', why: 'Version 2.' });
    expect(socket.closed).toBe(true);
  });

  it('or a broken one makes it connect again', async () => {
    const world = new World();
    world.reject = new MessageError('Broken.');
    world.connect().message(1);
    expect(world.state).toMatchObject({ state: 'lost', why: 'Broken.' });
    world.reject = null;
    await vi.advanceTimersByTimeAsync(1_000);
    world.socket.message(2);
    expect(world.state.state).toBe('live');
  });
});

it('stays closed once closed', async () => {
  const world = new World();
  const socket = world.connect();
  socket.message(1);
  world.link.disconnect();
  expect(socket.closed).toBe(true);
  socket.message(2);
  socket.end();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(world.state).toEqual({ state: 'closed' });
  expect([world.sockets.length, world.messages.length]).toEqual([1, 1]);
});

it('an answer that comes after another connection began is not taken', async () => {
  const world = new World();
  let answer: (response: Response) => void = () => undefined;
  world.answer = () => new Promise((resolve) => (answer = resolve));
  world.connect().end();
  const late = answer;
  world.connect().message(1);
  late(new Response(Uint8Array.of(9)));
  await vi.advanceTimersByTimeAsync(100);
  expect(world.messages).toEqual([[1]]);
  expect(world.state.state).toBe('live');
});
