/**
 * Text to take elsewhere: an address in one line or a command in several, each with a copy button.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { copyText } from '../lib/clipboard';
import { Icon } from './icons';

const SAID_MS = 1_800;

export function CopyButton(props: { text: string; label: string }) {
  const [outcome, setOutcome] = useState<'none' | 'copied' | 'failed'>('none');
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    setOutcome((await copyText(props.text)) ? 'copied' : 'failed');
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setOutcome('none'), SAID_MS);
  };
  return (
    <button
      type="button"
      class={`copy-button is-${outcome}`}
      onClick={() => void copy()}
      aria-label={`Copy ${props.label}`}>
      <Icon name={outcome === 'copied' ? 'check' : outcome === 'failed' ? 'close' : 'copy'} size={18} />
      <span class="copy-button-text" aria-live="polite">
        {outcome === 'copied' ? 'Copied' : outcome === 'failed' ? 'Select it by hand' : 'Copy'}
      </span>
    </button>
  );
}

/** One labelled line, e.g. an address. */
export function CopyLine(props: { label: string; text: string; testId?: string }) {
  return (
    <div class="copy-line">
      <span class="copy-label">{props.label}</span>
      <code class="copy-text" data-testid={props.testId}>
        {props.text}
      </code>
      <CopyButton text={props.text} label={props.label} />
    </div>
  );
}

/** A shell command, possibly in several lines. */
export function Command(props: { label: string; text: string; testId?: string }) {
  return (
    <div class="command">
      <div class="command-head">
        <span class="copy-label">{props.label}</span>
        <CopyButton text={props.text} label={props.label} />
      </div>
      <pre data-testid={props.testId}>
        <code>{props.text}</code>
      </pre>
    </div>
  );
}
