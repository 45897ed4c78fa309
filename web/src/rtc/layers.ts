/**
 * Layers of the picture that a WHEP session can be given: which there are, which one comes, and the choice
 * (draft-ietf-wish-whep, layer selection and server-sent events).
 */
import type { Extensions } from './link-header';

/** The layers of the first video, the best first. */
export interface Layers {
  /** Encodings by their names. */
  names: string[];
  /** Bits per second by name, of those that arrive. */
  rates: Map<string, number>;
  /** Heights of their pictures by name, of those that are known. */
  heights: Map<string, number>;
  /** What comes now; null if that is not known. */
  current: string | null;
  /** The server chooses by what the path carries. */
  automatic: boolean;
}

type Events = Pick<EventSource, 'addEventListener' | 'close'>;

export interface LayerWatchOptions {
  extensions: Extensions;
  token: string;
  onLayers: (layers: Layers) => void;
  makeEvents?: (url: string) => Events;
  fetch?: typeof fetch;
}

/** With nothing to choose for this long, the connection is given back: servers have few for events. */
const NO_CHOICE_MS = 10_000;

export class LayerWatch {
  readonly #options: LayerWatchOptions;
  #events: Events | null = null;
  #giveUpTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: LayerWatchOptions) {
    this.#options = options;
  }

  /** Listens to the server, if it has layers to choose from. */
  open(): void {
    const { events, layer } = this.#options.extensions;
    const make = this.#options.makeEvents ?? browserEvents();
    if (events === null || layer === null || make === null || this.#events !== null) return;
    const url = new URL(events);
    url.searchParams.set('events', 'layers');
    this.#events = make(url.href);
    this.#events.addEventListener('layers', (event) => {
      const layers = readLayers((event as MessageEvent<string>).data);
      if (this.#events === null || layers === null) return;
      if (layers.names.length > 1) clearTimeout(this.#giveUpTimer);
      this.#options.onLayers(layers);
    });
    this.#giveUpTimer = setTimeout(() => this.close(), NO_CHOICE_MS);
  }

  close(): void {
    clearTimeout(this.#giveUpTimer);
    this.#events?.close();
    this.#events = null;
  }

  /** Asks for a layer; null leaves the choice to the server. False if the server does not give it. */
  async choose(name: string | null): Promise<boolean> {
    const { extensions, token } = this.#options;
    if (extensions.layer === null) return false;
    const fetcher = this.#options.fetch ?? ((input, init) => fetch(input, init));
    const headers: Record<string, string> = { 'Content-Type': 'application/json' };
    if (token !== '') headers.Authorization = `Bearer ${token}`;
    try {
      const body = JSON.stringify({ encodingId: name });
      const response = await fetcher(extensions.layer, { method: 'POST', headers, body, cache: 'no-store' });
      return response.ok;
    } catch {
      return false;
    }
  }
}

/** The layers of the first video an event has; null if it has none. */
export function readLayers(data: string): Layers | null {
  let media: unknown;
  try {
    media = Object.values(JSON.parse(data) as object)[0];
  } catch {
    return null;
  }
  if (!isObject(media) || !Array.isArray(media.layers)) return null;
  const rates = new Map<string, number>();
  const heights = new Map<string, number>();
  const names = new Set<string>();
  for (const layer of media.layers as unknown[]) {
    const name = nameOf(layer);
    if (name === null || !isObject(layer)) continue;
    names.add(name);
    // Of the layers inside an encoding the last one has all of it.
    if (typeof layer.bitrate === 'number' && layer.bitrate > 0)
      rates.set(name, Math.max(layer.bitrate, rates.get(name) ?? 0));
    if (typeof layer.height === 'number' && layer.height > 0)
      heights.set(name, Math.max(layer.height, heights.get(name) ?? 0));
  }
  const best = [...names].sort((one, other) => (rates.get(other) ?? 0) - (rates.get(one) ?? 0));
  const automatic = media.automatic !== false;
  return { names: best, rates, heights, current: nameOf(media.current), automatic };
}

function nameOf(layer: unknown): string | null {
  return isObject(layer) && typeof layer.encodingId === 'string' ? layer.encodingId : null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function browserEvents(): ((url: string) => Events) | null {
  return typeof EventSource === 'undefined' ? null : (url) => new EventSource(url);
}
