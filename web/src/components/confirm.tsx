/**
 * A question before something that cannot be undone. The native dialog keeps the focus inside and closes on
 * Escape.
 */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

export interface ConfirmProps {
  title: string;
  children: ComponentChildren;
  action: string;
  busy: boolean;
  onConfirm: () => void;
  onCancel: () => void;
}

export function Confirm(props: ConfirmProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      class="confirm"
      aria-labelledby="confirm-title"
      onCancel={(event) => {
        event.preventDefault();
        props.onCancel();
      }}>
      <h2 id="confirm-title">{props.title}</h2>
      <div class="confirm-body">{props.children}</div>
      <div class="confirm-actions">
        <button type="button" class="button" onClick={props.onCancel}>
          Cancel
        </button>
        <button type="button" class="button button-danger" disabled={props.busy} onClick={props.onConfirm}>
          {props.action}
        </button>
      </div>
    </dialog>
  );
}
