/**
 * Bridges between the stores and components, and the objects every page needs.
 */
import { createContext, type RefObject } from 'preact';
import { useContext, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ApiClient } from '../api/client';
import { parseRoute, type Route } from '../lib/routes';
import type { Broadcast } from '../rtc/broadcast';
import type { ClusterState, ClusterView } from './cluster';
import type { LiveStats, LiveView } from './live-stats';
import type { Model, Snapshot } from './model';
import type { Preferences } from './preferences';
import type { RecordingsState, RecordingsView } from './recordings';
import type { SessionBook } from './session-book';
import type { Sources, SourcesView } from './sources';
import type { Store } from './store';
import type { Toasts } from './toasts';

export interface Services {
  client: ApiClient;
  broadcast: Broadcast;
  cluster: ClusterState;
  live: LiveStats;
  model: Model;
  preferences: Preferences;
  recordings: RecordingsState;
  sessions: SessionBook;
  sources: Sources;
  toasts: Toasts;
}

export const ServicesContext = createContext<Services | null>(null);

export function useServices(): Services {
  const services = useContext(ServicesContext);
  if (services === null) throw new Error('ServicesContext is provided at the root of the page');
  return services;
}

/** The store's value now, and a redraw whenever it changes. */
export function useStore<T>(store: Store<T>): T {
  const [value, setValue] = useState(store.value);
  useEffect(() => {
    // It may have changed between the first drawing and this effect.
    setValue(() => store.value);
    return store.subscribe(() => setValue(() => store.value));
  }, [store]);
  return value;
}

export function useSnapshot(): Snapshot {
  return useStore(useServices().model.store);
}

/** Live statistics; they come while the component is shown. */
export function useLive(): LiveView {
  const { live } = useServices();
  useEffect(() => live.use(), [live]);
  return useStore(live.store);
}

/** Channels, pulls and pushes; they are asked for while the component is shown. */
export function useSources(): SourcesView {
  const { sources } = useServices();
  useEffect(() => sources.use(), [sources]);
  return useStore(sources.store);
}

/** Recordings; they are asked for while the component is shown. */
export function useRecordings(): RecordingsView {
  const { recordings } = useServices();
  useEffect(() => recordings.use(), [recordings]);
  return useStore(recordings.store);
}

/** The cluster, with one of its streams if one is named; it is asked for while the component is shown. */
export function useCluster(stream = ''): ClusterView {
  const { cluster } = useServices();
  useEffect(() => cluster.select(stream), [cluster, stream]);
  useEffect(() => cluster.use(), [cluster]);
  return useStore(cluster.store);
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    window.addEventListener('hashchange', changed);
    return () => window.removeEventListener('hashchange', changed);
  }, []);
  return parseRoute(hash);
}

/** Calls `tick` every `ms` while the component is shown. */
export function useInterval(tick: () => void, ms: number): void {
  const latest = useRef(tick);
  latest.current = tick;
  useEffect(() => {
    const timer = setInterval(() => latest.current(), ms);
    return () => clearInterval(timer);
  }, [ms]);
}

/** Width of the element the reference is given to, in pixels; 0 until it is known. */
export function useWidth<T extends HTMLElement>(): [RefObject<T | null>, number] {
  const element = useRef<T>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const { current } = element;
    if (current === null) return;
    const measure = () => setWidth(Math.floor(current.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(current);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}

/** Sets the document title while the component is shown. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Millstream`;
  }, [title]);
}
