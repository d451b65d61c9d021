/* run/train.c: the training loop. All decisions are in the plan, so a step only fills the inputs,
 * walks the list and reads the scalars. */
#include "run/train.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/thread.h"
#include "host/call.h"
#include "job/control/control.h"
#include "job/control/once.h"
#include "job/control/progress.h"
#include "job/stop.h"
#include "run/consistency.h"
#include "run/exec/peak.h"
#include "run/exec/walk.h"
#include "run/inputs.h"
#include "run/memory_check.h"
#include "run/results.h"
#include "run/save/saver.h"
#include "run/state/outdir.h"
#include "run/state/resume.h"
#include "run/state/start.h"
#include "run/state/verify.h"
#include "run/state/weights.h"
#include "run/valid.h"
#include "run/view/plugins.h"
#include "run/view/progress.h"
#include "run/view/sinks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 1000u       /* between two looks whether OUT is still there */
#define FINISH_SECONDS 10.0 /* that a save has to its end when the run has failed */

typedef struct trainer {
    run_prepared *j;
    run_executor exec;
    job *job;
    job_identity who;
    job_hosts hosts;
    const plan *plan; /* of this rank's stage */
    const char *out;
    run_outlock lock;    /* of `out` */
    uint64_t looked_ms;  /* when it was last checked, */
    pthread_t look;      /* by a thread */
    bool looks;          /* that was started, */
    _Atomic bool looked; /* is ready, */
    err_record gone;     /* and found this */
    run_sinks sinks;
    run_results results;
    run_progress progress;
    run_inputs inputs; /* of one pass */
    run_saver *saver;  /* NULL: no checkpoints */
    bool copies;       /* saves are written beside the steps */
    bool skipped;      /* a step since the last save was skipped */
    uint64_t sound;    /* the last save before steps were skipped */
    uint64_t first, steps;
    int stopped;      /* the signal that requested a stop; 0: none */
    uint64_t stop_at; /* ... after this step */
    bool saved;       /* ... and it is in a checkpoint */
    run_begin begun;  /* what is recorded; without a job: nothing is */
} trainer;

/* --- inputs --- */

/* Sample numbers count over the whole job: step, then pass, then part of the micro-batch. */
static weft_status fill_step(trainer *t, uint64_t step)
{
    const spec *s = &t->j->spec;
    uint64_t micro = s->micro_batch, part = plan_data_part(t->plan, t->who.rank);
    for (uint32_t micro_batch = 0; micro_batch < t->plan->micro_batches; micro_batch++) {
        uint64_t sample =
            (step - 1) * s->batch + micro_batch * micro * t->plan->dp_size + part * micro;
        weft_status st = run_inputs_read(&t->inputs, &t->j->train, sample, micro, 0);
        t->inputs.first_token = (int64_t)((sample - part * micro) * (uint64_t)s->sequence);
        if (st == WEFT_OK)
            st = run_inputs_fill(&t->exec, micro_batch, &t->inputs);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

/* --- one step --- */

static weft_status verify(trainer *t, uint64_t step, run_metrics *m)
{
    const uint64_t every = t->j->set.verify_every;
    run_verified v = {0};
    weft_status st =
        every && step % every == 0 ? run_verify(&t->exec, &t->j->plans, step, &v) : WEFT_OK;
    m->verify_bytes = v.bytes;
    m->verify_ms = v.ms;
    return st;
}

static weft_status one_step(trainer *t, uint64_t step, run_metrics *m)
{
    run_results_begin(&t->results);
    m->step = step;
    m->valid_loss = -1;
    t->exec.step = step;
    job_progress_step(t->who.rank, step);
    weft_status st = run_inputs_step(&t->exec, step);
    if (st == WEFT_OK)
        st = fill_step(t, step);
    if (st == WEFT_OK)
        st = run_exec_list(&t->exec, &t->plan->step);
    for (uint32_t i = 0; st == WEFT_OK && i < t->plan->extra.n; i++)
        if (step % t->plan->extra.at[i].every == 0)
            st = run_exec_list(&t->exec, &t->plan->extra.at[i].l);
    if (st == WEFT_OK)
        st = run_results_end(&t->results, m);
    if (st == WEFT_OK)
        st = verify(t, step, m);
    const uint64_t every = t->j->set.eval_every;
    if (st == WEFT_OK && t->j->valid.set && every && (step % every == 0 || step == t->steps))
        st = run_valid_loss(&t->exec, &t->inputs, &t->j->valid, &m->valid_loss);
    return st;
}

static void report(trainer *t, const run_metrics *m)
{
    if (t->who.rank)
        return;
    run_progress_step(&t->progress, m);
    run_sinks_step(&t->sinks, m);
    if (m->skips)
        run_sinks_event(&t->sinks, "skipped", m->step,
                        "the gradient norm of step %llu is not finite",
                        (unsigned long long)m->step);
    if (run_metrics_evaluated(m))
        run_sinks_event(&t->sinks, "evaluation", m->step, "valid_loss %.9g", m->valid_loss);
}

/* What saves have done since the last look, for the sinks and for the metrics of the next step. */
static weft_status look_at_saves(trainer *t, run_metrics *m)
{
    run_save_news news;
    weft_status st = run_saver_look(t->saver, &news);
    m->save_stop_ms = news.stop_ms;
    m->save_copy_ms = news.copy_ms;
    m->save_write_ms = news.write_ms;
    if (st == WEFT_OK && news.complete)
        run_sinks_event(&t->sinks, "checkpoint", news.complete, "saved step %llu in %s",
                        (unsigned long long)news.complete, t->out);
    return st;
}

static void *look(void *arg)
{
    trainer *t = arg;
    if (run_outlock_check(&t->lock) != WEFT_OK)
        err_keep(&t->gone);
    atomic_store(&t->looked, true);
    return NULL;
}

/* Whether OUT is where it was: rank 0 looks now and then, so that a run does not go on for long
 * with its files gone. A network folder may be slow to answer: no step waits for that. */
static weft_status look_at_out(trainer *t)
{
    if (t->who.rank || clock_ms() - t->looked_ms < LOOK_MS || (t->looks && !t->looked))
        return WEFT_OK;
    if (t->looks)
        pthread_join(t->look, NULL);
    const bool gone = t->gone.code; /* the thread that begins now may write it */
    t->looked_ms = clock_ms();
    atomic_store(&t->looked, false);
    t->looks = !gone && !thread_start(&t->look, "weft-look", look, t);
    return gone ? err_again(t->gone.code, &t->gone) : WEFT_OK;
}

/* Waits for the last save, which is then where it is said to be. */
static weft_status finish_saves(trainer *t)
{
    run_metrics unused = {0};
    weft_status st = look_at_saves(t, &unused);
    if (st == WEFT_OK)
        st = run_saver_finish(t->saver);
    if (st == WEFT_OK)
        st = look_at_saves(t, &unused);
    return st != WEFT_OK || t->who.rank ? st : run_outlock_check(&t->lock);
}

/* While steps are skipped the run may have diverged: no checkpoint from before that is removed. */
static weft_status save(trainer *t, uint64_t step)
{
    const uint64_t spared = t->skipped ? t->sound : 0;
    if (!t->skipped)
        t->sound = step;
    t->skipped = false;
    run_sinks_event(&t->sinks, "saving", step, "a checkpoint of step %llu begins",
                    (unsigned long long)step);
    return run_saver_begin(t->saver, step, spared);
}

/* Stops on request after `step`, which may be saved already. Without checkpoints it saves none. */
static weft_status stop_after(trainer *t, uint64_t step, uint64_t saved)
{
    const bool saves = t->j->set.save_every;
    weft_status st = saves && step != saved ? save(t, step) : WEFT_OK;
    if (st == WEFT_OK)
        st = finish_saves(t);
    t->stop_at = step;
    t->saved = saves || step == saved;
    if (st == WEFT_OK)
        run_sinks_event(&t->sinks, "stop", step, "stopped by %s after step %llu",
                        job_stop_name(t->stopped), (unsigned long long)step);
    if (st == WEFT_OK && t->saved && !t->who.rank && step)
        log_line(WEFT_LOG_WARN,
                 "stopped by %s after step %llu, which is saved: continue with --resume=auto",
                 job_stop_name(t->stopped), (unsigned long long)step);
    return st;
}

/* One step, unless the run ends before it; *saved is the last step that a save was begun of. */
static weft_status next_step(trainer *t, uint64_t step, uint64_t *saved)
{
    const uint64_t every = t->j->set.save_every;
    const bool due = every && (step % every == 0 || step == t->steps);
    run_metrics m = {0};
    weft_status st = look_at_saves(t, &m);
    if (st == WEFT_OK)
        st = look_at_out(t);
    if (st == WEFT_OK)
        st = job_stop_before(t->job, step, &t->stopped);
    if (st == WEFT_OK && t->stopped)
        return stop_after(t, step - 1, *saved);
    if (st == WEFT_OK)
        st = one_step(t, step, &m);
    t->skipped |= m.skips;
    if (st == WEFT_OK)
        report(t, &m);
    run_trace_flush(&t->exec.trace);
    if (st == WEFT_OK && due)
        st = save(t, step);
    *saved = due ? step : *saved;
    if (st == WEFT_OK && job_stop_interrupted())
        st = err_fail(WEFT_IO, "stopped by a signal after step %llu", (unsigned long long)step);
    return st;
}

static weft_status loop(trainer *t)
{
    uint64_t saved = t->first - 1;
    weft_status st = WEFT_OK;
    for (uint64_t step = t->first; st == WEFT_OK && !t->stopped && step <= t->steps; step++)
        st = next_step(t, step, &saved);
    if (st == WEFT_OK)
        st = finish_saves(t);
    if (st == WEFT_OK)
        st = run_trace_write(&t->exec.trace, t->job, t->who.rank, t->who.ranks, t->out);
    return st;
}

/* --- start --- */

static ckpt_team team_of(const trainer *t)
{
    return (ckpt_team){t->job, t->who.rank, t->who.ranks, t->j->set.save_timeout};
}

/* All ranks open the newest valid checkpoint, and rank 0 checks whether this job may resume from
 * it. If a rank fails here, the exchange fails on the others. The caller closes *out also after a
 * failure, unless it is NULL. */
static weft_status open_checkpoint(trainer *t, bool force, ckpt **out)
{
    const ckpt_team team = team_of(t);
    weft_status st = ckpt_open_newest(t->out, &team, out);
    if (st == WEFT_OK)
        st = run_resume_check(t->j, *out, t->who.rank == 0, force);
    if (st == WEFT_OK && t->job)
        st = job_exchange(t->job, "resume", NULL, 0, NULL);
    return st;
}

static weft_status begin_or_resume(trainer *t, ckpt *c)
{
    t->first = 1;
    t->steps = t->j->set.steps;
    const ckpt_team team = team_of(t);
    if (!c)
        return run_start(&t->exec, t->j, &team);
    t->sound = ckpt_step(c);
    t->first = t->sound + 1;
    weft_status st = run_start_agree(&team, "resume.loaded", "the checkpoint",
                                     run_weights_load(&t->exec, &t->j->plans, c), 0);
    if (st == WEFT_OK && t->who.rank == 0)
        st = ckpt_set_aside(run_outlock_folder(&t->lock), t->out, ckpt_step(c));
    if (st == WEFT_OK && t->who.rank == 0)
        log_line(WEFT_LOG_INFO, "resumed after step %" PRIu64 " of %s", t->first - 1, ckpt_dir(c));
    if (st == WEFT_OK && t->who.rank == 0 && t->first > t->steps)
        log_line(WEFT_LOG_WARN, "nothing to do: run.steps = %llu has been reached",
                 (unsigned long long)t->steps);
    return st;
}

static weft_status prepare_out(trainer *t, run_resume_mode how, bool *resume)
{
    /* Ranks of a job that just failed may hold the lock for this long. */
    const double lock_timeout = t->j->set.frozen_after;
    const run_outdir_mode wish = {how != TRAIN_AFRESH, how == TRAIN_AFRESH || how == TRAIN_AUTO};
    return run_outdir_meet(t->out, wish, lock_timeout, t->job, &t->who, &t->lock, resume);
}

static void announce(const trainer *t)
{
    const spec *s = &t->j->spec;
    if (t->who.rank)
        return;
    log_line(WEFT_LOG_INFO, "%llu parameters, %u rank%s, %s a rank, on %s",
             (unsigned long long)t->plan->param_elements, s->ranks, s->ranks == 1 ? "" : "s",
             mem_size((double)t->j->plans.peak).text,
             PLUGIN_GET(t->exec.table, describe, t->exec.device));
    run_log_plugins(t->j);
    const double share = run_verify_share(&t->j->plans, t->who.rank);
    if (t->j->set.verify_every && share < 1)
        log_line(WEFT_LOG_WARN,
                 "run.verify compares %.0f %% of this rank's bytes of parameters and states: no "
                 "other rank holds a copy of the rest",
                 share * 100);
    if (t->plan->changes)
        log_line(WEFT_LOG_WARN, "results depend on the layout: %s", t->plan->changes);
    if (t->results.peak_flops > 0)
        log_line(WEFT_LOG_INFO, "MFU divides by %.4g GFLOP/s a rank", t->results.peak_flops * 1e-9);
}

static weft_status open_sinks(trainer *t, bool resume)
{
    const run_sinks_for f = {.spec = &t->j->spec,
                             .cfg = t->j->cfg,
                             .set = &t->j->set,
                             .meter = t->j->tables.meter,
                             .ranks = t->who.ranks,
                             .told = t->plan->scalars.n,
                             .after = resume ? t->first - 1 : 0};
    weft_status st = run_outlock_check(&t->lock);
    if (st == WEFT_OK)
        st = run_sinks_open(&f, &t->sinks);
    if (st == WEFT_OK)
        run_sinks_event(&t->sinks, resume ? "resume" : "begin", f.after,
                        "%s: steps %llu to %llu, ranks: %u",
                        resume ? "the run continues" : "the run begins",
                        (unsigned long long)t->first, (unsigned long long)t->steps, t->who.ranks);
    return st;
}

static weft_status start(trainer *t, run_resume_mode how, const run_additions *more)
{
    bool resume = false;
    ckpt *c = NULL;
    weft_status st = prepare_out(t, how, &resume);
    t->plan = plan_of(&t->j->plans, t->who.rank);
    if (st == WEFT_OK && resume)
        st = open_checkpoint(t, how == TRAIN_FORCE, &c);
    run_resume_describe_data(t->j);
    if (st == WEFT_OK) /* verifying may have taken long */
        st = run_outlock_check(&t->lock);
    if (st == WEFT_OK)
        st = run_exec_create(t->plan, &t->j->set, t->job, &t->who, t->out, &t->exec);
    if (st == WEFT_OK)
        st = run_outlock_check(&t->lock);
    if (st == WEFT_OK)
        st = run_trace_begin(&t->exec.trace, t->j->tables.spans, more->join_trace, t->job, &t->who,
                             t->out);
    run_results *r = &t->results;
    *r = (run_results){.exec = &t->exec, .spec = &t->j->spec, .peak_bytes = t->j->plans.peak};
    r->peak_flops = t->j->set.peak_flops;
    if (st == WEFT_OK && r->peak_flops <= 0)
        st = run_measure_peak(&t->exec, &r->peak_flops);
    if (st == WEFT_OK)
        st = begin_or_resume(t, c);
    ckpt_close(c);
    if (st == WEFT_OK && t->who.rank == 0) {
        t->begun =
            (run_begin){t->j, run_outlock_folder(&t->lock), t->first - 1, resume, r->peak_flops};
        if (more->record)
            more->record(&t->begun);
        st = open_sinks(t, resume);
    }
    if (st == WEFT_OK && t->j->set.save_every)
        st = run_saver_open(&t->exec, t->j->cfg, &t->lock, t->copies, t->j->spec.hosts.cpu_ranks,
                            &t->saver);
    if (st != WEFT_OK)
        return st;
    announce(t);
    run_inputs_take(&t->inputs, t->plan);
    run_results_open(r, t->first);
    run_progress_begin(&t->progress, t->first, t->steps, t->j->set.progress_every);
    return WEFT_OK;
}

static weft_status run(trainer *t, config *cfg, run_resume_mode how, const run_additions *more)
{
    if (t->who.ranks > 1)
        log_add_time();
    weft_status st = run_join(&t->who, cfg, &t->job);
    if (st == WEFT_OK)
        st = job_find_hosts(t->job, &t->who, &t->hosts);
    if (st == WEFT_OK)
        st = run_prepare(cfg, t->who.ranks, true,
                         &(resolve_meeting){.hosts = &t->hosts, .job = t->job, .who = &t->who},
                         t->j);
    t->j->files = more->files;
    if (st == WEFT_OK)
        st = run_memory_check(&t->j->plans, &t->j->spec, t->who.rank);
    if (st == WEFT_OK)
        st = run_memory_check_copies(t->j, t->who.rank, &t->copies);
    if (st == WEFT_OK)
        st = run_check_consistency(t->j, t->job, &t->who, how);
    if (st != WEFT_OK)
        return st;
    log_add_time(); /* what one rank says before is about the job file */
    t->out = t->j->set.out;
    st = start(t, how, more);
    job_stop_at_once(false);
    if (st == WEFT_OK)
        st = loop(t);
    run_saver_complete(t->saver, FINISH_SECONDS);
    if (t->looks)
        pthread_join(t->look, NULL);
    run_progress_end(&t->progress);
    return st;
}

/* The exit status: for a stop on request that of stop.h, else that of `s`. `why` is the message to
 * print; "": none. */
static int exit_status(const trainer *t, weft_status st, char why[2048])
{
    if (st == WEFT_PEER && job_stop_declared())
        snprintf(why, 2048, "the job was stopped by %s before its first step; %s",
                 job_stop_name(job_stop_declared()), job_stop_advice());
    if (st == WEFT_OK && t->stopped && !t->saved)
        snprintf(
            why, 2048,
            "the job was stopped by %s after step %llu, and nothing is saved: checkpoint.every "
            "is 0",
            job_stop_name(t->stopped), (unsigned long long)t->stop_at);
    if ((st == WEFT_PEER && job_stop_declared()) || (st == WEFT_OK && t->stopped && t->saved))
        return STOP_STATUS;
    return st == WEFT_OK && t->stopped ? 1 : err_exit_code(st);
}

/* `why` is what this rank says; why the job failed is added if that says something else. */
static void record_end(trainer *t, const run_additions *more, const char *why)
{
    char all[4096];
    const uint64_t before = t->first - 1, step = t->exec.step;
    if (!t->begun.job || !more->record_end || run_outlock_check(&t->lock) != WEFT_OK)
        return; /* nothing is recorded, or the folder is another job's by now */
    const bool adds = *why && job_failure(t->job) == WEFT_PEER && !strstr(why, err_text()) &&
                      !strstr(err_text(), why);
    snprintf(all, sizeof all, "%s%s%s", why, adds ? ": " : "", adds ? err_text() : "");
    if (!*why && t->stopped)
        snprintf(all, sizeof all, "stopped by %s%s", job_stop_name(t->stopped),
                 t->stop_at ? ", with a checkpoint" : " before its first step");
    more->record_end(&(run_end){&t->begun, step > before ? step : before, all});
}

int run_train_refuse(weft_status st)
{
    job_identity who = {0};
    char why[2048];
    snprintf(why, sizeof why, "%s", err_text());
    if (job_identify(&who) == WEFT_OK)
        log_setup(WEFT_LOG_INFO, who.ranks > 1 ? (int)who.rank : -1);
    job_once_say(&who, st, why);
    return err_exit_code(st);
}

int run_train_rank(config *cfg, run_resume_mode resume, const run_additions *more)
{
    run_prepared j = {0};
    trainer t = {.j = &j};
    weft_status st = job_identify(&t.who);
    if (st == WEFT_OK) {
        log_setup(WEFT_LOG_INFO, t.who.ranks > 1 ? (int)t.who.rank : -1);
        job_stop_catch(job_control_descriptor() >= 0);
        job_stop_at_once(t.who.ranks == 1);
        st = run(&t, cfg, resume, more);
    }
    char why[2048];
    snprintf(why, sizeof why, "%s", st != WEFT_OK ? err_text() : "");
    if (st != WEFT_OK && st != WEFT_PEER)
        job_progress_fail(why, why);
    const bool traces = st != WEFT_OK && run_outlock_leads(&t.lock);
    if (t.who.rank) /* before rank 0, which removes the lock */
        run_outlock_release(&t.lock, 0);
    run_tables_end(&j.tables);
    if (!job_leave(t.job, st, st != WEFT_OK ? why : NULL) && st == WEFT_OK) {
        snprintf(why, sizeof why, "%s", err_text());
        st = WEFT_PEER;
    }
    int status = exit_status(&t, st, why);
    if (*why)
        job_once_say(&t.who, st, why);
    const char *well = t.stopped ? "the run was stopped on request" : "the run is complete";
    run_sinks_event(&t.sinks, "end", t.exec.step, "%s", *why ? why : well);
    run_sinks_close(&t.sinks);
    record_end(&t, more, why);
    if (traces)
        run_trace_rescue(&t.exec.trace, t.who.ranks, t.out);
    run_saver_close(t.saver);
    run_exec_destroy(&t.exec, st != WEFT_OK); /* its links use the job until here */
    job_free(t.job);
    run_outlock_release(&t.lock, st == WEFT_OK ? 1 : 0.2); /* a frozen rank keeps its own */
    run_inputs_free(&t.inputs);
    run_results_close(&t.results);
    run_unprepare(&j);
    job_free_hosts(&t.hosts);
    return status;
}
