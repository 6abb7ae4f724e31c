// The bar above a log: search with its count, display options, the selected lines.
import type { RefObject } from 'react'
import { Button } from '../components/button.tsx'
import { Icon } from '../components/icon.tsx'
import { say } from '../components/toast.tsx'
import { count } from '../format.ts'
import { plainText } from './ansi.ts'
import { type Lines, writeLines } from './links.ts'
import css from './log.module.css'
import { MATCHES, type SearchState } from './search.ts'
import { firstOf, type LogStore, rangeOf } from './store.ts'

export const QUERY_CHARS = 200

interface ToggleProps {
  label: string
  isOn: boolean
  set(isOn: boolean): void
}

function Toggle({ label, isOn, set }: ToggleProps) {
  return (
    <label className={css.toggle}>
      <input type="checkbox" checked={isOn} onChange={(e) => set(e.currentTarget.checked)} />
      {label}
    </label>
  )
}

function found({ query, matches, isBusy, problem, upTo }: SearchState, at: number, total: number) {
  if (query === '' || problem) return ''
  const most = matches.length >= MATCHES ? '+' : ''
  const all = `${matches.length.toLocaleString('en')}${most}`
  const place = matches.indexOf(at)
  if (isBusy) {
    const part = total > 0 ? Math.min(99, Math.floor((100 * upTo) / total)) : 0
    return `${all}, searching ${part} %`
  }
  if (matches.length === 0) return 'No matches'
  return place < 0 ? `${all} found` : `${place + 1}/${all}`
}

interface ToolbarProps {
  search: SearchState
  total: number
  /** The line of the current match. */
  at: number
  input: RefObject<HTMLInputElement | null>
  onSearch(query: string, isRegex: boolean): void
  onStep(by: 1 | -1): void
  onLeave(): void
  toggles: readonly ToggleProps[]
}

export function Toolbar(props: ToolbarProps) {
  const { search, onSearch, onStep } = props
  const words = found(search, props.at, props.total)
  return (
    <div className={css.bar}>
      <search className={css.search}>
        <Icon name="search" />
        <input
          ref={props.input}
          type="text"
          aria-label="Search in the log"
          placeholder="Search the log  /"
          autoComplete="off"
          spellCheck={false}
          maxLength={QUERY_CHARS}
          defaultValue={new URLSearchParams(location.search).get('q') ?? ''}
          onChange={(e) => onSearch(e.currentTarget.value, search.isRegex)}
          onKeyDown={(e) => {
            if (e.key === 'Enter') onStep(e.shiftKey ? -1 : 1)
            else if (e.key === 'Escape') props.onLeave()
          }}
        />
        <span className={css.count} role="status">
          {words}
        </span>
        <Button kind="quiet" small aria-label="Previous match" onClick={() => onStep(-1)}>
          ↑
        </Button>
        <Button kind="quiet" small aria-label="Next match" onClick={() => onStep(1)}>
          ↓
        </Button>
      </search>
      <Toggle
        label="Regex"
        isOn={search.isRegex}
        set={(isOn) => onSearch(props.input.current?.value ?? '', isOn)}
      />
      {props.toggles.map((t) => (
        <Toggle key={t.label} {...t} />
      ))}
      {search.problem && (
        <span role="alert" className={css.problem}>
          {search.problem}
        </span>
      )}
    </div>
  )
}

const COPIED_LINES = 50_000

/** Copies whole lines, including those that are not rendered or not loaded yet. */
async function copyLines(store: LogStore, { from, to }: Lines): Promise<void> {
  const last = Math.min(to, store.total, from + COPIED_LINES - 1)
  const texts: string[] = []
  for (let id = rangeOf(from); id <= rangeOf(last); id++) {
    const lines = await store.fetch(id)
    const [a, b] = [Math.max(from, firstOf(id)), Math.min(last, firstOf(id + 1) - 1)]
    for (let n = a; n <= b; n++) texts.push(plainText(lines[n - firstOf(id)]?.text ?? ''))
  }
  await navigator.clipboard.writeText(`${texts.join('\n')}\n`)
}

const REFUSED = 'The browser did not allow it. Select the text and copy it.'

/** The page with its phase, its lines and its search, as another user opens it. */
function addressOf(query: string): string {
  const url = new URL(location.href)
  const phase = url.searchParams.get('phase')
  url.search = ''
  if (phase) url.searchParams.set('phase', phase)
  if (query !== '') url.searchParams.set('q', query)
  return url.href
}

/** On a phone the system's own sheet, elsewhere the clipboard. */
export async function shareAddress(query: string): Promise<void> {
  const url = addressOf(query)
  if (matchMedia('(pointer: coarse)').matches && typeof navigator.share === 'function') {
    return navigator.share({ url, title: document.title }).catch(() => {}) // the user closed it
  }
  await navigator.clipboard.writeText(url).then(
    () => say('Link copied.'),
    () => say(REFUSED),
  )
}

export function Picked({
  lines,
  store,
  query,
  onDrop,
}: {
  lines: Lines
  store: LogStore
  query: string
  onDrop(): void
}) {
  const many = lines.to - lines.from + 1
  const copy = () =>
    copyLines(store, lines).then(
      () => say(`${count(Math.min(many, COPIED_LINES), 'line')} copied.`),
      () => say(REFUSED),
    )
  return (
    <div className={css.picked}>
      <span>{many === 1 ? `Line ${lines.from}` : `Lines ${lines.from}–${lines.to}`}</span>
      <Button kind="quiet" small onClick={() => void copy()}>
        <Icon name="copy" /> {many === 1 ? 'Copy line' : `Copy ${many} lines`}
      </Button>
      <Button
        kind="quiet"
        small
        aria-label={`Copy link to ${writeLines(lines)}`}
        onClick={() => void shareAddress(query)}
      >
        Copy link
      </Button>
      <Button kind="quiet" small aria-label="Clear selection" onClick={onDrop}>
        <Icon name="cross" />
      </Button>
    </div>
  )
}
