// A search box over a list, in a dialog: Base UI's autocomplete. The caller finds the entries; arrows choose, Enter opens.
import { Autocomplete } from '@base-ui/react/autocomplete'
import { Dialog } from '@base-ui/react/dialog'
import { useState } from 'react'
import { Icon, type IconName } from '../icon.tsx'
import css from './finder.module.css'

export interface Entry {
  key: string
  label: string
  /** At the end of the row. */
  kind: string
  icon?: IconName
}

interface FinderProps<T extends Entry> {
  title: string
  label: string
  placeholder: string
  question: string
  entries: readonly T[]
  onQuestion(question: string): void
  onChoose(entry: T): void
  onClose(): void
}

export function Finder<T extends Entry>(props: FinderProps<T>) {
  const { title, label, placeholder, question, entries, onQuestion, onChoose, onClose } = props
  const [opener] = useState(() => document.activeElement)
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className={css.backdrop ?? ''} />
        <Dialog.Viewport className={css.place ?? ''}>
          <Dialog.Popup
            aria-label={title}
            className={css.finder ?? ''}
            finalFocus={() => (opener instanceof HTMLElement && opener.isConnected ? opener : true)}
          >
            <Autocomplete.Root
              inline
              open
              mode="none"
              autoHighlight="always"
              keepHighlight
              items={entries}
              itemToStringValue={(entry: T) => entry.label}
              value={question}
              onValueChange={(next, { reason }) => {
                // a chosen entry would write its name into the box
                if (reason !== 'item-press') onQuestion(next)
              }}
            >
              <div className={css.box}>
                <Icon name="search" />
                <Autocomplete.Input
                  className={css.input ?? ''}
                  aria-label={label}
                  placeholder={placeholder}
                />
              </div>
              <Autocomplete.Empty>
                <p className={css.none}>No results</p>
              </Autocomplete.Empty>
              <Autocomplete.List className={css.list ?? ''} aria-label="Results">
                {(entry: T) => (
                  <Autocomplete.Item
                    key={entry.key}
                    value={entry}
                    className={css.entry ?? ''}
                    onClick={() => onChoose(entry)}
                  >
                    {entry.icon && <Icon name={entry.icon} />}
                    <span className={css.label}>{entry.label}</span>
                    <span className={css.kind}>{entry.kind}</span>
                  </Autocomplete.Item>
                )}
              </Autocomplete.List>
            </Autocomplete.Root>
          </Dialog.Popup>
        </Dialog.Viewport>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
