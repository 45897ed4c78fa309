/**
 * A form above the page. The native dialog keeps the focus inside and closes on Escape; what the server says
 * against the input is shown in the form, which keeps it.
 */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { asApiError } from '../api/errors';

export interface FormDialogProps {
  title: string;
  action: string;
  children: ComponentChildren;
  /** Whether everything that is needed has been entered. */
  ready: boolean;
  /** Fails when the server refuses. */
  onSubmit: () => Promise<void>;
  /** What the server says against it, in the words of the form. */
  refusalWords?: (message: string) => string;
  onClose: () => void;
}

export function FormDialog(props: FormDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState<string | null>(null);
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setRefusal(null);
    try {
      await props.onSubmit();
    } catch (cause) {
      const { message } = asApiError(cause);
      setRefusal(props.refusalWords?.(message) ?? message);
      setBusy(false);
      return;
    }
    props.onClose();
  };
  const cancel = (event: Event) => {
    event.preventDefault();
    props.onClose();
  };
  return (
    <dialog ref={dialog} class="confirm form-dialog" aria-labelledby="form-dialog-title" onCancel={cancel}>
      <form onSubmit={(event) => void submit(event)}>
        <h2 id="form-dialog-title">{props.title}</h2>
        <div class="stack">{props.children}</div>
        {refusal !== null && (
          <p class="trouble" role="alert" data-testid="refusal">
            {refusal}
          </p>
        )}
        <div class="confirm-actions">
          <button type="button" class="button" onClick={props.onClose}>
            Cancel
          </button>
          <button type="submit" class="button button-primary" disabled={busy || !props.ready}>
            {props.action}
          </button>
        </div>
      </form>
    </dialog>
  );
}

export interface TextFieldProps {
  name: string;
  label: string;
  value: string;
  onValue: (value: string) => void;
  /** Said in place of the hint; nothing is said of what is still empty. */
  problem: string | null;
  hint: string;
  placeholder?: string;
  /** More than one line. */
  rows?: number;
  /** Not to be read over a shoulder, nor kept by the browser. */
  secret?: boolean;
}

const SECRET = { type: 'password', autocomplete: 'new-password' } as const;

export function TextField(props: TextFieldProps) {
  const wrong = props.problem !== null && props.value !== '';
  const common = {
    id: `form-${props.name}`,
    value: props.value,
    placeholder: props.placeholder ?? '',
    spellcheck: false,
    'aria-invalid': wrong,
    'aria-describedby': `form-${props.name}-hint`,
    autocomplete: 'off',
  } as const;
  return (
    <div class={`field${wrong ? ' is-wrong' : ''}`}>
      <label for={common.id}>{props.label}</label>
      {props.rows === undefined ? (
        <input
          {...common}
          {...(props.secret === true ? SECRET : {})}
          autocapitalize="none"
          onInput={(event) => props.onValue(event.currentTarget.value)}
        />
      ) : (
        <textarea
          {...common}
          rows={props.rows}
          autocapitalize="none"
          onInput={(event) => props.onValue(event.currentTarget.value)}
        />
      )}
      <small id={`form-${props.name}-hint`}>{wrong ? props.problem : props.hint}</small>
    </div>
  );
}
