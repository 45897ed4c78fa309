/**
 * Frame of the console: navigation, connection state, and the page the address names.
 */
import { useEffect } from 'preact/hooks';
import { AccessPanel } from './components/access';
import { ConnectionBanner } from './components/connection-banner';
import { ErrorBoundary } from './components/error-boundary';
import { Icon, Logo, type IconName } from './components/icons';
import { Empty } from './components/pieces';
import { ThemeButton, useTheme } from './components/theme-button';
import { ToastList } from './components/toasts';
import { duration } from './lib/format';
import type { Route } from './lib/routes';
import { streamKey } from './lib/urls';
import { useRoute, useServices, useSnapshot, useStore } from './state/hooks';
import { ClusterPage } from './views/cluster';
import { Overview } from './views/overview';
import { PublishPage } from './views/publish';
import { RecordingsPage } from './views/recordings';
import { SessionsPage } from './views/sessions';
import { SourcesPage } from './views/sources';
import { StreamPage } from './views/stream';
import { WatchPage } from './views/watch';
import { WorkersPage } from './views/workers';

export function App() {
  useTheme();
  const route = useRoute();
  if (route.view === 'watch') {
    return (
      <ErrorBoundary>
        <WatchPage
          key={streamKey(route.stream)}
          stream={route.stream}
          token={route.token}
          asked={route.asked}
        />
      </ErrorBoundary>
    );
  }
  return <Console route={route} />;
}

function Console({ route }: { route: Route }) {
  usePolling();
  useEffect(() => window.scrollTo(0, 0), [route.view]);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={skipToMain}>
        Skip to the page
      </a>
      <Sidebar view={route.view} />
      <main id="main" tabIndex={-1}>
        <ConnectionBanner />
        <ErrorBoundary key={route.view}>
          <Page route={route} />
        </ErrorBoundary>
      </main>
      <ToastList />
    </div>
  );
}

function Page({ route }: { route: Route }) {
  const { connection } = useSnapshot();
  // Publishing from a browser needs the media address alone, so it works where the management API is closed.
  const refused = connection.state === 'unauthorized' || connection.state === 'forbidden';
  if (refused && route.view !== 'publish') {
    return <AccessPanel kind={connection.state} message={connection.message} />;
  }
  switch (route.view) {
    case 'overview':
      return <Overview />;
    case 'stream':
      return <StreamPage key={streamKey(route.stream)} stream={route.stream} session={route.session} />;
    case 'sessions':
      return <SessionsPage stream={route.stream} role={route.role} session={route.session} />;
    case 'sources':
      return <SourcesPage />;
    case 'recordings':
      return <RecordingsPage search={route.search} />;
    case 'workers':
      return <WorkersPage />;
    case 'cluster':
      return <ClusterPage stream={route.stream} />;
    case 'publish':
      return <PublishPage />;
    default:
      return (
        <Empty title="There is no such page">
          <a class="button" href="#/">
            Go to the overview
          </a>
        </Empty>
      );
  }
}

const LINKS: { view: Route['view']; href: string; text: string; icon: IconName }[] = [
  { view: 'overview', href: '#/', text: 'Overview', icon: 'overview' },
  { view: 'sessions', href: '#/sessions', text: 'Sessions', icon: 'sessions' },
  { view: 'sources', href: '#/sources', text: 'Sources', icon: 'sources' },
  { view: 'recordings', href: '#/recordings', text: 'Recordings', icon: 'recordings' },
  { view: 'workers', href: '#/workers', text: 'Workers', icon: 'workers' },
  { view: 'cluster', href: '#/cluster', text: 'Cluster', icon: 'cluster' },
  { view: 'publish', href: '#/publish', text: 'Publish', icon: 'publish' },
];

function Sidebar({ view }: { view: Route['view'] }) {
  const current = view === 'stream' ? 'overview' : view;
  const { server } = useSnapshot();
  const isClustered = typeof server?.cluster_node === 'string';
  const links = LINKS.filter((link) => link.view !== 'cluster' || isClustered);
  return (
    <header class="sidebar">
      <a class="brand" href="#/" aria-label="Millstream, overview">
        <Logo />
        <span>Millstream</span>
      </a>
      <nav class="nav" aria-label="Console">
        {links.map((link) => (
          <a key={link.view} href={link.href} aria-current={current === link.view ? 'page' : undefined}>
            <Icon name={link.icon} />
            <span>{link.text}</span>
            {link.view === 'publish' && <OnAirLamp />}
          </a>
        ))}
      </nav>
      <div class="sidebar-foot">
        <ServerLine />
        <ThemeButton />
      </div>
    </header>
  );
}

/** This browser publishes: a reminder on every page. */
function OnAirLamp() {
  const { publish, key } = useStore(useServices().broadcast.store);
  if (publish.phase === 'idle') return null;
  return (
    <span
      class={`on-air${publish.phase === 'live' ? '' : ' is-troubled'}`}
      role="img"
      aria-label={`This browser publishes ${key}`}
      title={`This browser publishes ${key}`}
    />
  );
}

function ServerLine() {
  const { server, connection } = useSnapshot();
  const token = useStore(useServices().preferences.token);
  const online = connection.state === 'online';
  return (
    <div class="server-line">
      <span class={`server-dot ${online ? 'is-online' : 'is-offline'}`} aria-hidden="true" />
      <div>
        <div>{online ? 'Online' : connection.state === 'connecting' ? 'Connecting' : 'Not connected'}</div>
        <div class="muted">
          {server === null ? '' : `${server.version} · up ${duration(server.uptime_seconds)}`}
        </div>
        <div class="server-links">
          {/* A plain link carries no token. */}
          {token === null && <a href="/api/v1/openapi.json">API</a>}
          {token === null && <a href="/metrics">Metrics</a>}
          <a href="/assets/licences.md">Licences</a>
        </div>
      </div>
    </div>
  );
}

/** Polls while the page can be seen; a hidden tab costs the server nothing. */
function usePolling(): void {
  const { cluster, live, model, recordings, sources } = useServices();
  useEffect(() => {
    const follow = () => {
      live.setSeen(!document.hidden);
      sources.setSeen(!document.hidden);
      cluster.setSeen(!document.hidden);
      recordings.setSeen(!document.hidden);
      if (document.hidden) model.stop();
      else model.start();
    };
    follow();
    document.addEventListener('visibilitychange', follow);
    return () => {
      document.removeEventListener('visibilitychange', follow);
      model.stop();
    };
  }, [cluster, live, model, recordings, sources]);
}

/** The fragment is the route, so the skip link must not change it. */
function skipToMain(event: Event): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}
