// Live logs of the services: the last lines of each, then new ones. A reconnect starts over; the server keeps more
// lines than the page, and the client can read them.
import { useEffect, useLayoutEffect, useRef, useState } from 'react'
import { api, problemOf } from '../../api.ts'
import { CopyField } from '../../components/copy.tsx'
import { Section } from '../../components/page.tsx'
import { Note } from '../../components/states.tsx'
import type { Environment } from '../../data.ts'
import { EnvironmentFrame } from './frame.tsx'
import css from './logs.module.css'

const LINES = 1_000
/** Lines arrive in bursts; one paint covers many. */
const PAINT_MS = 100
const AT_END_PX = 40

interface Line {
  n: number
  service: string
  text: string
  t: string
  isError: boolean
}

export function EnvironmentLogs() {
  return (
    <EnvironmentFrame tab="Logs">
      {(e) => (
        <>
          <Logs key={e.id} environment={e} />
          <Section title="More than a page holds">
            <CopyField label="command" text={`berth logs -e ${e.identifier} -f --since 26h`} />
          </Section>
        </>
      )}
    </EnvironmentFrame>
  )
}

/** Strips terminal sequences such as colours. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: that is what they begin with
const SEQUENCES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|.)/g

function useServiceLogs(
  id: number,
  service: string,
): { lines: Line[]; problem: string | undefined } {
  const [lines, setLines] = useState<Line[]>([])
  const [problem, setProblem] = useState<string>()
  useEffect(() => {
    let kept: Line[] = []
    let n = 0
    let timer: ReturnType<typeof setTimeout> | undefined
    const paint = () => {
      timer ??= setTimeout(() => {
        timer = undefined
        setLines(kept)
      }, PAINT_MS)
    }
    setLines([])
    setProblem(undefined)
    const asked = { environment_id: id, tail: LINES, ...(service ? { services: [service] } : {}) }
    const subscription = api.environment.logs.subscribe(asked, {
      onData(message) {
        if (message.kind === 'begun') kept = []
        else {
          const fresh = message.records.map((record): Line => {
            n += 1
            if ('kind' in record) {
              const text = `Lines of ${record.days} are gone.`
              return { n, service: record.service, text, t: '', isError: false }
            }
            const text = record.text.replaceAll(SEQUENCES, '').replace(/[\r\n]+$/, '')
            return { n, service: record.service, text, t: record.t, isError: record.s === 'err' }
          })
          kept = [...kept, ...fresh].slice(-LINES)
        }
        paint()
      },
      onError: (error) => setProblem(problemOf(error).message),
    })
    return () => {
      clearTimeout(timer)
      subscription.unsubscribe()
    }
  }, [id, service])
  return { lines, problem }
}

function Logs({ environment: e }: { environment: Environment }) {
  const [service, choose] = useState('')
  const { lines, problem } = useServiceLogs(e.id, service)
  const ref = useRef<HTMLElement>(null)
  const follows = useRef(true)
  // biome-ignore lint/correctness/useExhaustiveDependencies: new lines move the end
  useLayoutEffect(() => {
    const box = ref.current
    if (box && follows.current) box.scrollTop = box.scrollHeight
  }, [lines])
  return (
    <Section
      title="Output of the services"
      isBare
      actions={
        <select
          aria-label="Service"
          value={service}
          onChange={(event) => choose(event.currentTarget.value)}
        >
          <option value="">All services</option>
          {e.services.map((s) => (
            <option key={s.name}>{s.name}</option>
          ))}
        </select>
      }
    >
      {problem && <Note kind="warn">{problem}</Note>}
      <section
        ref={ref}
        className={css.box}
        aria-label="Output of the services"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls by keyboard
        tabIndex={0}
        onScroll={(event) => {
          const box = event.currentTarget
          follows.current = box.scrollHeight - box.scrollTop - box.clientHeight < AT_END_PX
        }}
      >
        {lines.length === 0 && <p className={css.none}>No lines yet.</p>}
        {lines.map((line) => (
          <div key={line.n} className={line.isError ? css.error : css.line}>
            <span className={css.service} title={line.t}>
              {line.service}
            </span>
            <span>{line.text}</span>
          </div>
        ))}
      </section>
    </Section>
  )
}
