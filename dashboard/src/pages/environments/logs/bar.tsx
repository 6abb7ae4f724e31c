// The one bar of filters above a runtime log. The address holds every choice, so that a view can be shared.
import { LOG_LEVEL_FILTERS, STATUS_CLASSES } from '@berth/shared/log-lines'
import { Link } from '@tanstack/react-router'
import { type RefObject, useEffect, useState } from 'react'
import { api } from '../../../api.ts'
import { useAct } from '../../../components/act.tsx'
import { Icon } from '../../../components/icon.tsx'
import { Menu, MenuButton } from '../../../components/menu.tsx'
import { say } from '../../../components/toast.tsx'
import type { Environment } from '../../../data.ts'
import { capital } from '../../../format.ts'
import { type LogChoice, type LogSearch, readChoice, writeChoice } from './choice.ts'
import css from './logs.module.css'

const TYPING_MS = 300
const HOUR_MS = 3_600_000
const BACK = [
  ['15 min ago', HOUR_MS / 4],
  ['1 hour ago', HOUR_MS],
  ['6 hours ago', 6 * HOUR_MS],
  ['1 day ago', 24 * HOUR_MS],
] as const

export interface LogsBarProps {
  environment: Environment
  choice: LogChoice
  /** Names that appear in the lines, such as files that the application writes. */
  services: readonly string[]
  input: RefObject<HTMLInputElement | null>
  isWrapped: boolean
  isFollowing: boolean
  choose(change: Partial<LogChoice>): void
  wrap(is: boolean): void
  follow(is: boolean): void
}

function Switch({ environment: e, choice }: Pick<LogsBarProps, 'environment' | 'choice'>) {
  const to = (log: LogChoice['log']): LogSearch => writeChoice({ ...readChoice({}), log })
  return (
    <nav className={css.switch} aria-label="Log">
      {(['services', 'requests'] as const).map((log) => (
        <Link
          key={log}
          to="/environments/$id/logs"
          params={{ id: String(e.id) }}
          search={to(log)}
          activeOptions={{ exact: true }}
          aria-current={choice.log === log ? 'page' : undefined}
        >
          {capital(log)}
        </Link>
      ))}
    </nav>
  )
}

interface ToggleGroupProps<T extends string> {
  label: string
  all: readonly T[]
  chosen: readonly T[]
  dots: Record<string, string | undefined>
  choose(chosen: T[]): void
}

function ToggleGroup<T extends string>(props: ToggleGroupProps<T>) {
  const { all, chosen, choose, dots } = props
  return (
    // biome-ignore lint/a11y/useSemanticElements: buttons in a row, no form
    <div role="group" className={css.group} aria-label={props.label}>
      {all.map((one) => {
        const isOn = chosen.includes(one)
        return (
          <button
            key={one}
            type="button"
            aria-pressed={isOn}
            onClick={() => choose(isOn ? chosen.filter((c) => c !== one) : [...chosen, one])}
          >
            <span className={`${css.dot} ${dots[one] ?? ''}`} aria-hidden="true" />
            {capital(one)}
          </button>
        )
      })}
    </div>
  )
}

const LEVEL_DOTS = { error: css.error, warn: css.warn, info: css.info }
const STATUS_DOTS = { '2xx': css.s2xx, '4xx': css.s4xx, '5xx': css.s5xx }

function Search({ choice, choose, input }: LogsBarProps) {
  const [text, type] = useState(choice.q)
  useEffect(() => type(choice.q), [choice.q])
  useEffect(() => {
    if (text === choice.q) return
    const timer = setTimeout(() => choose({ q: text }), TYPING_MS)
    return () => clearTimeout(timer)
  }, [text, choice.q, choose])
  return (
    <search className={css.search}>
      <Icon name="search" />
      <input
        ref={input}
        type="search"
        aria-label={choice.log === 'services' ? 'Search lines' : 'Search requests'}
        placeholder="Search"
        maxLength={200}
        autoComplete="off"
        spellCheck={false}
        value={text}
        onChange={(event) => type(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter') choose({ q: text })
          else if (event.key === 'Escape' && text !== '') choose({ q: '' })
        }}
      />
    </search>
  )
}

/** The value of a field for local times. */
function toLocal(t: string): string {
  const date = new Date(t)
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

function When({ choice, choose }: Pick<LogsBarProps, 'choice' | 'choose'>) {
  const [isPicking, pick] = useState(false)
  const isField = isPicking || choice.until !== ''
  return (
    <>
      <select
        aria-label="Time"
        value={choice.until === '' ? (isPicking ? 'pick' : '') : 'pick'}
        onChange={(event) => {
          const { value } = event.currentTarget
          pick(value === 'pick')
          if (value === '') choose({ until: '' })
          else if (value !== 'pick') {
            choose({ until: new Date(Date.now() - Number(value)).toISOString() })
          }
        }}
      >
        <option value="">Latest</option>
        {BACK.map(([label, ms]) => (
          <option key={ms} value={ms}>
            {label}
          </option>
        ))}
        <option value="pick">At a time…</option>
      </select>
      {isField && (
        <input
          type="datetime-local"
          className={css.at}
          aria-label="Show lines around"
          step={1}
          value={choice.until === '' ? '' : toLocal(choice.until)}
          onChange={(event) => {
            const date = new Date(event.currentTarget.value)
            if (!Number.isNaN(date.getTime())) choose({ until: date.toISOString() })
          }}
        />
      )}
    </>
  )
}

function Download({ environment: e, choice }: Pick<LogsBarProps, 'environment' | 'choice'>) {
  const download = useAct()
  const get = (ms: number | undefined) => () => {
    const since = ms === undefined ? {} : { since: new Date(Date.now() - ms).toISOString() }
    const { log, service, levels, statuses, q } = choice
    const selection = {
      environment_id: e.id,
      log,
      services: service === '' ? [] : [service],
      levels: [...levels],
      statuses: [...statuses],
      q,
      ...since,
    }
    // a ticket first, so a refusal appears as a message and never as a file
    void download.run(async () =>
      location.assign((await api.runtimeLog.ticket.mutate(selection)).url),
    )
  }
  useEffect(() => {
    if (download.problem) say(download.problem.message)
  }, [download.problem])
  return (
    <Menu label="Download" small kind="plain" face={<Icon name="download" />}>
      <MenuButton onClick={get(HOUR_MS)}>Last hour</MenuButton>
      <MenuButton onClick={get(24 * HOUR_MS)}>Last 24 hours</MenuButton>
      <MenuButton onClick={get(undefined)}>Everything stored</MenuButton>
    </Menu>
  )
}

export function LogsBar(props: LogsBarProps) {
  const { environment: e, choice, choose } = props
  const known = [...e.services.map((s) => s.name), ...props.services, choice.service]
  const names = [...new Set(known.filter((name) => name !== ''))].sort()
  return (
    <div className={css.bar}>
      <div className={css.part}>
        <Switch environment={e} choice={choice} />
        <Search {...props} />
        <When choice={choice} choose={choose} />
        <Download environment={e} choice={choice} />
      </div>
      <div className={css.part}>
        {names.length > 1 && (
          <select
            aria-label="Service"
            value={choice.service}
            onChange={(event) => choose({ service: event.currentTarget.value })}
          >
            <option value="">All services</option>
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
        {choice.log === 'services' ? (
          <ToggleGroup
            label="Levels"
            all={LOG_LEVEL_FILTERS}
            chosen={choice.levels}
            dots={LEVEL_DOTS}
            choose={(levels) => choose({ levels })}
          />
        ) : (
          <ToggleGroup
            label="Status"
            all={STATUS_CLASSES}
            chosen={choice.statuses}
            dots={STATUS_DOTS}
            choose={(statuses) => choose({ statuses })}
          />
        )}
        <div className={css.toggles}>
          <label className={`${css.toggle} ${css.wide}`}>
            <input
              type="checkbox"
              checked={props.isWrapped}
              onChange={(event) => props.wrap(event.currentTarget.checked)}
            />
            Wrap
          </label>
          <label className={css.toggle}>
            <input
              type="checkbox"
              checked={props.isFollowing}
              onChange={(event) => props.follow(event.currentTarget.checked)}
            />
            Follow
          </label>
        </div>
      </div>
    </div>
  )
}
