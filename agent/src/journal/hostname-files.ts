// The question of a runner which host names it may serve, and the answer: two files in the attempt's folder, each
// replaced whole. The number of the question ties an answer to it, so that one of an earlier question counts for nothing.
// Both survive either process: a daemon that starts finds the question, a runner finds the answer.
import { existsSync, readFileSync } from 'node:fs'
import { replaceFile } from '../machine/atomic-files.ts'
import { attemptPaths } from './attempt-files.ts'

export interface HostQuestion {
  id: string
  hosts: string[]
}

export type HostVerdictWord = 'granted' | 'taken' | 'not_allowed'

export interface HostAnswer {
  /** Of the question. */
  id: string
  /** One per host that was asked for. */
  claims: { host: string; verdict: HostVerdictWord; message: string }[]
  /** Why the control plane did not decide at all, and will not; empty: it did. */
  refused: string
}

/** A file that is missing, or that a broken disk damaged, says nothing. */
function readJson<T>(file: string): T | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T
  } catch {
    return undefined
  }
}

export const askForHosts = (dir: string, question: HostQuestion): void =>
  replaceFile(attemptPaths(dir).hostsAsk, JSON.stringify(question))

export const answerHosts = (dir: string, answer: HostAnswer): void =>
  replaceFile(attemptPaths(dir).hostsAnswer, JSON.stringify(answer))

export function readHostAnswer(dir: string, id: string): HostAnswer | undefined {
  const answer = readJson<HostAnswer>(attemptPaths(dir).hostsAnswer)
  return answer?.id === id ? answer : undefined
}

/** What still has to be asked. */
export function openHostQuestion(dir: string): HostQuestion | undefined {
  if (!existsSync(attemptPaths(dir).hostsAsk)) return undefined
  const question = readJson<HostQuestion>(attemptPaths(dir).hostsAsk)
  return question && !readHostAnswer(dir, question.id) ? question : undefined
}
