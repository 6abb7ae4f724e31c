// Forms: the browser holds what is typed until it is sent; the server judges it, and its words appear at the field they
// are about. The first field in error gets the focus. Nothing typed is kept anywhere else.
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

export const FormProblem = createContext<Problem | undefined>(undefined)

interface FormProps {
  /** Resolves when the server agreed. */
  send(data: FormData, form: HTMLFormElement): Promise<unknown>
  submit: string
  kind?: ButtonKind
  /** Said when it worked. */
  done?: string
  /** Beside the submit button. */
  beside?: ReactNode
  reason?: string | undefined
  label?: string
  /** Fields forget what was typed once it was sent. */
  clears?: boolean
  isRow?: boolean
  children?: ReactNode
}

export function Form(props: FormProps) {
  const { send, submit, kind = 'main', done, beside, reason, label, clears, isRow } = props
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState<Problem>()
  const ref = useRef<HTMLFormElement>(null)
  const isHere = useMounted()
  useFocusOnProblem(ref, problem)
  const submitted = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (isBusy || reason !== undefined) return
    const form = event.currentTarget
    setBusy(true)
    setProblem(undefined)
    try {
      await send(new FormData(form), form)
      if (clears) form.reset()
      if (done) say(done)
    } catch (error) {
      if (isHere.current) setProblem(problemOf(error))
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
        {problem && <FormError problem={problem} />}
        <div className="row">
          <Button type="submit" kind={kind} busy={isBusy} reason={reason}>
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

/** What is about no field that is on the page, and the sentence as a whole. */
export function FormError({ problem }: { problem: Problem }) {
  const task = problem.details.task_id
  return (
    <div role="alert">
      <Note kind="bad">
        {problem.message}
        {problem.fields.length > 1 && (
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

/** What the server said about this field. */
export function useFieldError(name: string | undefined): string | undefined {
  const problem = useContext(FormProblem)
  return problem?.fields.find((f) => f.field === name || f.field.startsWith(`${name}.`))?.message
}

/** What was typed into a field; nothing typed is empty. */
export const text = (data: FormData, name: string): string => String(data.get(name) ?? '')
export const isChecked = (data: FormData, name: string): boolean => data.get(name) !== null
/** One entry a line; empty lines are none. */
export const lines = (data: FormData, name: string): string[] =>
  text(data, name)
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)
