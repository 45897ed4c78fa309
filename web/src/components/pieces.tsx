/**
 * Small parts shared by the pages: badges, meters, facts, empty states.
 */
import type { ComponentChildren } from 'preact';
import type { Stream } from '../api/types';
import { percent } from '../lib/format';

/** On-air lamp of a stream, with the state in words for those who do not see colours. */
export function StateBadge(props: { state: Stream['state'] }) {
  if (props.state === 'live') return <Badge tone="live" text="Live" title="Being published" />;
  return <Badge tone="hollow" text="Waiting" title="No publisher; players wait" />;
}

/** A lamp and a word. */
export function Badge(props: { tone: 'live' | 'good' | 'plain' | 'hollow' | 'warn' | 'bad'; text: string; title: string }) {
  return (
    <span class={`badge badge-${props.tone}`} title={props.title}>
      {props.text}
    </span>
  );
}

/** Horizontal bar for a share of 100. */
export function LoadBar(props: { percent: number; label: string }) {
  const value = Math.min(100, Math.max(0, props.percent));
  const level = value >= 90 ? 'high' : value >= 70 ? 'raised' : 'normal';
  return (
    <div
      class={`loadbar is-${level}`}
      role="meter"
      aria-label={props.label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(value)}>
      <svg class="loadbar-track" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
        <rect class="loadbar-fill" width={value} height={1} />
      </svg>
      <span class="loadbar-value">{percent(props.percent)}</span>
    </div>
  );
}

/** A name and a value; several make a list of facts. */
export function Fact(props: { name: string; children: ComponentChildren; stat?: string }) {
  return (
    <div class="fact">
      <dt>{props.name}</dt>
      <dd data-stat={props.stat}>{props.children}</dd>
    </div>
  );
}

export function Panel(props: {
  title: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
  id?: string;
}) {
  return (
    <section class={`panel ${props.class ?? ''}`} aria-label={props.title} id={props.id}>
      <header class="panel-head">
        <h2>{props.title}</h2>
        {props.aside}
      </header>
      {props.children}
    </section>
  );
}

/** Says that there is nothing and what to do about it. */
export function Empty(props: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{props.title}</p>
      {props.children}
    </div>
  );
}

export function PageHead(props: { title: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="page-head">
      <h1>{props.title}</h1>
      <div class="page-head-aside">{props.children}</div>
    </header>
  );
}
