// Forms. The browser holds the typed values until they are sent, and they are kept nowhere else. The server validates;
// its messages appear at their fields, and the first invalid field gets the focus.
import {
  createContext,
  type FormEvent,
  type ReactNode,
  type RefObject,
  useContext,
  useEffect,
  useRef,
  useState,
} from 'react'
import { type Problem, problemOf } from '../../api.ts'
import { Button, type ButtonKind } from '../button.tsx'
import { Note } from '../states.tsx'
import { say } from '../toast.tsx'
import css from './form.module.css'

const FormProblem = createContext<Problem | undefined>(undefined)

interface FormProps {
  /** Resolves when the server accepted. */
  send(data: FormData, form: HTMLFormElement): Promise<unknown>
  submit: string
  kind?: ButtonKind
  /** Shown on success. */
  done?: string
  /** Beside the submit button. */
  beside?: ReactNode
  reason?: string | undefined
  /** The page shows the reason in another way. */
  reasonHidden?: boolean
  label?: string
  /** Clears the fields after a successful send. */
  clears?: boolean
  isRow?: boolean
  children?: ReactNode
}

export function Form(props: FormProps) {
  const { send, submit, kind = 'main', done, beside, reason, label, clears, isRow } = props
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState<Problem>()
  const [unplaced, setUnplaced] = useState<Problem>()
  const ref = useRef<HTMLFormElement>(null)
  const isHere = useMounted()
  useFocusOnProblem(ref, problem)
  const submitted = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (isBusy || reason !== undefined) return
    const form = event.currentTarget
    setBusy(true)
    setProblem(undefined)
    setUnplaced(undefined)
    try {
      await send(new FormData(form), form)
      if (clears) form.reset()
      if (done) say(done)
    } catch (error) {
      if (!isHere.current) return
      const found = problemOf(error)
      setProblem(found)
      setUnplaced(leaveOut(found, form))
    } finally {
      if (isHere.current) setBusy(false)
    }
  }
  return (
    <FormProblem value={problem}>
      <form
        ref={ref}
        className={isRow ? css.rowForm : css.form}
        aria-label={label}
        onSubmit={(event) => void submitted(event)}
        autoComplete="off"
      >
        {props.children}
        {unplaced && <FormError problem={unplaced} />}
        <div className="row">
          <Button
            type="submit"
            kind={kind}
            busy={isBusy}
            reason={reason}
            reasonHidden={props.reasonHidden ?? false}
          >
            {submit}
          </Button>
          {beside}
        </div>
      </form>
    </FormProblem>
  )
}

function useMounted(): RefObject<boolean> {
  const ref = useRef(true)
  useEffect(() => {
    ref.current = true
    return () => {
      ref.current = false
    }
  }, [])
  return ref
}

function useFocusOnProblem(ref: RefObject<HTMLFormElement | null>, problem: Problem | undefined) {
  useEffect(() => {
    if (!problem) return
    const first = ref.current?.querySelector<HTMLElement>('[aria-invalid="true"]')
    first?.focus()
  }, [ref, problem])
}

const belongsTo = (field: string, name: string): boolean =>
  field === name || field.startsWith(`${name}.`)

/** What the fields of the form do not show themselves: each message appears once, and none is lost. */
function leaveOut(problem: Problem, form: HTMLFormElement): Problem | undefined {
  if (problem.fields.length === 0) return problem
  const names = [...form.elements].flatMap((element) => element.getAttribute('name') || [])
  const fields = problem.fields.filter((f) => !names.some((name) => belongsTo(f.field, name)))
  return fields.length === 0 ? undefined : { ...problem, fields }
}

export function FormError({ problem }: { problem: Problem }) {
  const task = problem.details.task_id
  const [only, ...others] = problem.fields
  return (
    <div role="alert">
      <Note kind="bad">
        {only && others.length === 0 ? only.message : problem.message}
        {others.length > 0 && (
          <ul>
            {problem.fields.map((f) => (
              <li key={`${f.field} ${f.message}`}>{f.message}</li>
            ))}
          </ul>
        )}
        {typeof task === 'number' && (
          <>
            {' '}
            <a href={`/tasks/${task}`}>Open deployment {task}</a>
          </>
        )}
      </Note>
    </div>
  )
}

/** The server's messages for this field. */
export function useFieldError(name: string | undefined): string | undefined {
  const problem = useContext(FormProblem)
  if (name === undefined) return undefined
  const own = problem?.fields.filter((f) => belongsTo(f.field, name)) ?? []
  return own.length === 0 ? undefined : [...new Set(own.map((f) => f.message))].join(' ')
}

/** The value of a field; empty if nothing was typed. */
export const text = (data: FormData, name: string): string => String(data.get(name) ?? '')
export const isChecked = (data: FormData, name: string): boolean => data.get(name) !== null
/** One entry per line; empty lines are skipped. */
export const lines = (data: FormData, name: string): string[] =>
  text(data, name)
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)
