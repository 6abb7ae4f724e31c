// The question of a runner which hostnames it may serve, and the answer: two files in the attempt's folder, each
// replaced atomically. The id of the question ties an answer to it, so that answers to earlier questions are ignored.
// Both files survive either process: a restarted daemon finds the question, a runner finds the answer.
import { existsSync, readFileSync } from 'node:fs'
import { replaceFile } from '../machine/atomic-files.ts'
import { attemptPaths } from './attempt-files.ts'

export interface HostQuestion {
  id: string
  hosts: string[]
}

export type HostVerdictWord = 'granted' | 'taken' | 'not_allowed'

export interface HostAnswer {
  /** The id of the question. */
  id: string
  /** One per requested hostname. */
  claims: { host: string; verdict: HostVerdictWord; message: string }[]
  /** Why the control plane refused to decide; empty: it decided. */
  refused: string
}

/** A file that is missing, or damaged by a broken disk, counts as empty. */
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

/** The question that still needs an answer. */
export function openHostQuestion(dir: string): HostQuestion | undefined {
  if (!existsSync(attemptPaths(dir).hostsAsk)) return undefined
  const question = readJson<HostQuestion>(attemptPaths(dir).hostsAsk)
  return question && !readHostAnswer(dir, question.id) ? question : undefined
}
