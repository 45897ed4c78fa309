/** A session from offer to end: order of steps, trickle, restart, and what counts as the end. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Trouble } from '../src/lib/trouble';
import { Connection, type Link } from '../src/rtc/connection';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const sections = (ufrag: string) => `v=0\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:0\r\na=ice-ufrag:${ufrag}\r\na=ice-pwd:0123456789012345678901\r\n`;

class FakeDtls extends EventTarget {
  state = 'connected';
}

class FakePeer extends EventTarget {
  steps: string[] = [];
  connectionState = 'new';
  configuration: RTCConfiguration = {};
  remote = '';
  closed = false;
  dtls = new FakeDtls();
  #offers = 0;
  createOffer = (options?: RTCOfferOptions) => {
    this.#offers += 1;
    this.steps.push(options?.iceRestart ? 'offer again' : 'offer');
    return Promise.resolve({ type: 'offer', sdp: sections(`own${this.#offers}`) });
  };
  getConfiguration = () => this.configuration;
  setConfiguration = (configuration: RTCConfiguration) => {
    this.steps.push('servers');
    this.configuration = configuration;
  };
  setLocalDescription = () => {
    this.steps.push('local');
    return Promise.resolve();
  };
  setRemoteDescription = ({ sdp }: { sdp: string }) => {
    this.steps.push('remote');
    this.remote = sdp;
    return Promise.resolve();
  };
  getReceivers = () => [{ transport: this.dtls }];
  getSenders = () => [];
  close = () => void (this.closed = true);
  become(state: string): void {
    this.connectionState = state;
    this.dispatchEvent(new Event('connectionstatechange'));
  }
  candidate(text: string | null): void {
    this.dispatchEvent(Object.assign(new Event('icecandidate'), { candidate: text === null ? null : { candidate: text } }));
  }
}

function setup(options: { lite?: boolean; patch?: () => Response } = {}) {
  const peer = new FakePeer();
  const links: Link[] = [];
  const troubles: Trouble[] = [];
  const requests: { method: string; body: string }[] = [];
  const answer = sections('srv1').replace('v=0\r\n', options.lite === false ? 'v=0\r\n' : 'v=0\r\na=ice-lite\r\n');
  const fetcher = ((_url: string, init: RequestInit) => {
    peer.steps.push(String(init.method));
    requests.push({ method: String(init.method), body: String(init.body ?? '') });
    if (init.method === 'POST') {
      return Promise.resolve(new Response(answer, { status: 201, headers: { location: '/s/1', etag: '"1"', link: '<stun:s>; rel="ice-server"' } }));
    }
    return Promise.resolve(init.method === 'PATCH' && options.patch ? options.patch() : new Response(null, { status: 204 }));
  }) as typeof fetch;
  const connection = new Connection({
    role: 'play',
    url: 'http://h/whep/a/b',
    token: '',
    prepare: () => void peer.steps.push('prepare'),
    onLink: (link) => links.push(link),
    onTrouble: (trouble) => troubles.push(trouble),
    makePeer: () => peer as unknown as RTCPeerConnection,
    fetch: fetcher,
  });
  return { peer, links, troubles, requests, connection };
}

it('posts the offer at once and gathers only when the ICE servers are known', async () => {
  const { peer, connection, links } = setup();
  await connection.open();
  expect(peer.steps).toEqual(['prepare', 'offer', 'POST', 'servers', 'local', 'remote']);
  expect(peer.configuration.iceServers).toEqual([{ urls: 'stun:s' }]);
  peer.become('connected');
  expect(links).toEqual(['connecting', 'connected']);
});

it('sends no candidates to an ICE-lite server', async () => {
  const { peer, connection, requests } = setup();
  await connection.open();
  peer.candidate('candidate:1');
  peer.candidate(null);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(requests.map(({ method }) => method)).toEqual(['POST']);
});

it('sends candidates to any other server, those of one moment together', async () => {
  const { peer, connection, requests } = setup({ lite: false });
  await connection.open();
  peer.candidate('candidate:1');
  peer.candidate('candidate:2');
  await vi.advanceTimersByTimeAsync(200);
  peer.candidate(null);
  await vi.advanceTimersByTimeAsync(200);
  const patches = requests.filter(({ method }) => method === 'PATCH').map(({ body }) => body);
  expect(patches).toHaveLength(2);
  expect(patches[0]).toContain('a=ice-ufrag:own1\r\n');
  expect(patches[0]).toContain('a=candidate:1\r\na=candidate:2\r\n');
  expect(patches[1]).toContain('a=end-of-candidates\r\n');
});

it('gives up when no path is found', async () => {
  const { connection, troubles, peer, requests } = setup();
  await connection.open();
  await vi.advanceTimersByTimeAsync(11_999);
  expect(troubles).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(troubles).toMatchObject([{ elsewhere: 'cannot', retry: 'always' }]);
  expect(peer.closed).toBe(true);
  expect(requests.at(-1)?.method).toBe('DELETE');
});

it('restarts ICE when the path is interrupted, and goes on with the server’s new credentials', async () => {
  const { connection, peer, links, troubles, requests } = setup({ patch: () => new Response('a=ice-ufrag:srv2\r\na=ice-pwd:new-password-0123456789\r\n', { status: 200 }) });
  await connection.open();
  peer.become('connected');
  peer.become('disconnected');
  expect(links.at(-1)).toBe('interrupted');
  await vi.advanceTimersByTimeAsync(2_500);
  expect(requests.at(-1)?.body).toContain('a=ice-ufrag:own2\r\n');
  expect(peer.steps.slice(-4)).toEqual(['offer again', 'PATCH', 'local', 'remote']);
  expect(peer.remote).toContain('a=ice-ufrag:srv2\r\n');
  peer.become('connected');
  await vi.advanceTimersByTimeAsync(60_000);
  expect(links.at(-1)).toBe('connected');
  expect(troubles).toEqual([]);
});

it('does not restart when the path comes back by itself', async () => {
  const { connection, peer } = setup();
  await connection.open();
  peer.become('connected');
  peer.become('disconnected');
  await vi.advanceTimersByTimeAsync(1_000);
  peer.become('connected');
  await vi.advanceTimersByTimeAsync(10_000);
  expect(peer.steps).not.toContain('offer again');
});

it.each([
  ['the server does not restart', () => new Response(null, { status: 404 })],
  ['its answer has no credentials', () => new Response('a=mid:0\r\n', { status: 200 })],
])('counts as lost when %s', async (_name, patch) => {
  const { connection, peer, troubles } = setup({ patch });
  await connection.open();
  peer.become('connected');
  peer.become('failed');
  await vi.advanceTimersByTimeAsync(0);
  expect(troubles).toMatchObject([{ text: 'The connection was lost.' }]);
});

it('counts as lost when the restarted path does not come', async () => {
  const { connection, peer, troubles } = setup({ patch: () => new Response('a=ice-ufrag:s\r\na=ice-pwd:p\r\n', { status: 200 }) });
  await connection.open();
  peer.become('connected');
  peer.become('failed');
  await vi.advanceTimersByTimeAsync(9_999);
  peer.become('failed');
  expect(troubles).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(troubles).toMatchObject([{ text: 'The connection was lost.' }]);
});

it('ends when the server says goodbye on the encrypted channel', async () => {
  const { connection, peer, troubles, requests } = setup();
  await connection.open();
  peer.become('connected');
  peer.dtls.state = 'closed';
  peer.dtls.dispatchEvent(new Event('statechange'));
  expect(troubles).toMatchObject([{ text: 'The server ended this session.' }]);
  expect(requests.at(-1)?.method).toBe('DELETE');
  expect(connection.peer).toBeNull();
});

it('deletes a session that was answered after it was given up', async () => {
  const { connection, requests, peer } = setup();
  const opening = connection.open();
  connection.close();
  await opening;
  expect(requests.map(({ method }) => method)).toEqual(['POST', 'DELETE']);
  expect(peer.steps).not.toContain('remote');
});
