// The id in the address. One that is no number is asked for as 0, which nobody has.
import { useParams } from '@tanstack/react-router'

export function useId(): number {
  const { id } = useParams({ strict: false }) as { id?: string }
  return /^[1-9]\d{0,9}$/.test(id ?? '') ? Number(id) : 0
}
