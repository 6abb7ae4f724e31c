// An action behind one button: busy until the server answers; a refusal appears next to the button.
import { type ReactNode, useState } from 'react'
import { type Problem, problemOf } from '../api.ts'
import { Button, type ButtonKind } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { Check, Text } from './forms/field.tsx'
import { Form, FormError, isChecked, text } from './forms/form.tsx'
import { say } from './toast.tsx'

interface Act {
  isBusy: boolean
  problem: Problem | undefined
  run(work: () => Promise<unknown>, done?: string): Promise<void>
}

export function useAct(): Act {
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState<Problem>()
  return {
    isBusy,
    problem,
    async run(work, done) {
      if (isBusy) return
      setBusy(true)
      setProblem(undefined)
      try {
        await work()
        if (done) say(done)
      } catch (error) {
        setProblem(problemOf(error))
      } finally {
        setBusy(false)
      }
    },
  }
}

interface ActButtonProps {
  act(): Promise<unknown>
  done?: string
  kind?: ButtonKind
  small?: boolean
  reason?: string | undefined
  label?: string
  children: ReactNode
}

export function ActButton({ act, done, kind, small, reason, label, children }: ActButtonProps) {
  const { isBusy, problem, run } = useAct()
  return (
    <>
      <Button
        busy={isBusy}
        reason={reason}
        aria-label={label}
        onClick={() => void run(act, done)}
        {...(kind ? { kind } : {})}
        {...(small ? { small } : {})}
      >
        {children}
      </Button>
      {problem && <FormError problem={problem} />}
    </>
  )
}

interface AskProps {
  title: string
  /** What will happen. */
  children?: ReactNode
  submit: string
  kind?: ButtonKind
  /** The user must type this word first. */
  word?: string
  /** The user must tick each of these first. */
  ticks?: readonly { name: string; label: string }[]
  send(): Promise<unknown>
  onClose(): void
  done?: string
}

/** Asks for confirmation; the server compares the word as well. */
export function Ask({
  title,
  children,
  submit,
  kind = 'danger',
  word,
  ticks = [],
  ...rest
}: AskProps) {
  const [typed, type] = useState('')
  const [ticked, tick] = useState(0)
  const isTyped = word === undefined || typed === word
  const left = ticks.length - ticked
  const reason = !isTyped
    ? `Type ${word} to continue.`
    : left > 0
      ? 'Select every protected environment to continue.'
      : undefined
  return (
    <Dialog title={title} onClose={rest.onClose}>
      {children}
      <Form
        submit={submit}
        kind={kind}
        reason={reason}
        {...(rest.done ? { done: rest.done } : {})}
        beside={<Button onClick={rest.onClose}>Cancel</Button>}
        send={async (data) => {
          if (word !== undefined && text(data, 'word') !== word) return
          if (!ticks.every((t) => isChecked(data, t.name))) return
          await rest.send()
          rest.onClose()
        }}
      >
        {ticks.map((t) => (
          <Check
            key={t.name}
            name={t.name}
            label={t.label}
            onChange={(event) => {
              const step = event.currentTarget.checked ? 1 : -1
              tick((n) => n + step)
            }}
          />
        ))}
        {word !== undefined && (
          <Text
            label={`Type ${word} to confirm`}
            name="word"
            autoComplete="off"
            autoCapitalize="off"
            spellCheck={false}
            onChange={(event) => type(event.currentTarget.value)}
          />
        )}
      </Form>
    </Dialog>
  )
}
