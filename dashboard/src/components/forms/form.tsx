// Forms. The browser holds the typed values until they are sent, and they are kept nowhere else. The server validates;
// each message appears once, at its field or at the top, and the first of them gets the focus. Typed values are not lost
// silently: leaving the page asks first.
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
import { GuardsForms } from './guards.ts'
import { type FormField, type Placed, placeProblems } from './problems.ts'
import { LeaveGuard } from './unsaved.tsx'

interface FormState {
  placed: Placed | undefined
  /** Fields say that they are on the form; the result takes one away again. */
  add(field: FormField): () => void
}

const FormContext = createContext<FormState | undefined>(undefined)

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
  /** False if the page itself asks before typed values are lost. */
  guards?: boolean
  /** Whether something was typed and not sent. */
  onDirty?: (isDirty: boolean) => void
  children?: ReactNode
}

export function Form(props: FormProps) {
  const { send, submit, kind = 'main', done, beside, reason, label, clears, isRow } = props
  const guards = useContext(GuardsForms) && props.guards !== false
  const { onDirty } = props
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState<Problem>()
  const [placed, place] = useState<Placed>()
  const [isDirty, setDirty] = useState(false)
  const ref = useRef<HTMLFormElement>(null)
  const fields = useRef(new Map<string, FormField>())
  const isHere = useMounted()
  useFocusOnProblem(ref, problem)
  const dirty = (now: boolean) => {
    setDirty(now)
    onDirty?.(now)
  }
  const refuse = (found: Problem | undefined) => {
    setProblem(found)
    place(found && placeProblems(found, inOrder(ref.current, fields.current)))
  }
  const submitted = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (isBusy || reason !== undefined) return
    const form = event.currentTarget
    setBusy(true)
    refuse(undefined)
    try {
      await send(new FormData(form), form)
      if (isHere.current) dirty(false)
      if (clears) form.reset()
      if (done) say(done)
    } catch (error) {
      if (isHere.current) refuse(problemOf(error))
    } finally {
      if (isHere.current) setBusy(false)
    }
  }
  const [state] = useState(() => ({
    add(field: FormField) {
      fields.current.set(field.id, field)
      return () => void fields.current.delete(field.id)
    },
  }))
  return (
    <FormContext value={{ placed, add: state.add }}>
      <form
        ref={ref}
        className={isRow ? css.rowForm : css.form}
        aria-label={label}
        onSubmit={(event) => void submitted(event)}
        onInput={() => !isDirty && dirty(true)}
        autoComplete="off"
      >
        {problem && placed && placed.atTop.length > 0 && (
          <FormError problem={problem} messages={placed.atTop} />
        )}
        {props.children}
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
      {guards && isDirty && <LeaveGuard isSending={isBusy} />}
    </FormContext>
  )
}

/** The fields as they are on the page, so that the first of several with one name gets the message. */
function inOrder(
  form: HTMLFormElement | null,
  fields: ReadonlyMap<string, FormField>,
): readonly FormField[] {
  const controls = [...(form?.elements ?? [])]
  return controls.flatMap(({ id }) => fields.get(id) ?? [])
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
    const first = ref.current?.querySelector<HTMLElement>('[aria-invalid="true"], [data-problem]')
    first?.focus()
  }, [ref, problem])
}

/** `messages`: those that belong to no field of a form. */
export function FormError({
  problem,
  messages,
}: {
  problem: Problem
  messages?: readonly string[]
}) {
  const task = problem.details.task_id
  const all = messages ?? placeProblems(problem, []).atTop
  return (
    <div role="alert" tabIndex={-1} data-problem="">
      <Note kind="bad">
        {all.length === 1 ? (
          all[0]
        ) : (
          <ul>
            {all.map((message) => (
              <li key={message}>{message}</li>
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

/** Puts a field on its form; the server's message for it. */
export function useFieldError(
  id: string,
  name: string | undefined,
  label: string,
  also?: readonly string[],
): string | undefined {
  const form = useContext(FormContext)
  const add = form?.add
  const others = also?.join(' ')
  useEffect(() => {
    const names = others?.split(' ') ?? []
    return name ? add?.({ id, name, label, also: names }) : undefined
  }, [add, id, name, label, others])
  return form?.placed?.atFields.get(id)
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
