"""The texts with which sbatch refuses, each with a code, our words and what to do. Data for `refusals`."""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """A text (a pattern, case ignored), the code it gets, what it means, and what to do."""

    code: str
    pattern: str
    sentence: str
    todo: str


SITE = Known(
    "site_policy",
    r"error: (lua|job_submit\w*|cli_filter\w*):|(job_submit|cli_filter)\S* (plugin )?(terminated|rejected|failed)",
    "a rule of this site refused the job",
    "do as the site's message says; launchers.slurm_additional_parameters takes any option of sbatch",
)

BARE = Known(
    "unspecified",
    r"Unspecified error",
    "Slurm refused the job and gave no reason",
    "ask the site's support: it is usually a submit plugin that says nothing",
)

KNOWN = (
    Known(
        "sbatch_missing",
        r"sbatch: (command )?not found|No such file or directory: '\S*sbatch'|cannot start sbatch",
        "sbatch is not on PATH",
        "run this on a login node of the cluster, or load the site's Slurm module",
    ),
    Known(
        "no_configuration",
        r"establish a configuration source|process (slurm\.conf|configuration) file|slurm\.conf.*(No such|"
        r"not found)",
        "Slurm finds no configuration here",
        "run this on a login node, or set SLURM_CONF",
    ),
    Known(
        "authentication",
        r"Protocol authentication error|Invalid authentication credential|munge (en|de)code|"
        r"auth\w* plugin.*munge|munged?\b.*(socket|connect)",
        "Slurm could not prove who we are (munge)",
        "tell the site: munge is down here, or its clock or key differs",
    ),
    Known(
        "controller_timeout",
        r"Socket timed out|Zero Bytes were transmitted|receive failure|Message receive fail",
        "the controller did not answer in time, and may have taken the job all the same",
        "look before you submit again: squeue --me",
    ),
    Known(
        "controller_unreachable",
        r"Unable to (contact|establish|resolve)\b.*(controller|control machine)|"
        r"Communication connection failure|standby mode|Connection refused",
        "Slurm's controller cannot be reached",
        "try again when `scontrol ping` says UP",
    ),
    Known(
        "try_again",
        r"temporarily unable to accept|Resource temporarily unavailable|Unable to create job record|"
        r"presently disabled|Nodes required for job are DOWN.*submi",
        "Slurm takes no jobs at this moment",
        "submit again later",
    ),
    Known(
        "unrecognized_option",
        r"un(recognized|known) option|invalid option --|option .* (requires an argument|is ambiguous|"
        r"doesn't allow)",
        "sbatch does not know an option",
        "correct launchers.slurm_additional_parameters; `sbatch --help` lists what this version knows",
    ),
    Known(
        "array_too_large",
        r"Invalid job array|Invalid --array|array index|MaxArraySize",
        "the array is larger than the site allows (MaxArraySize bounds its highest index)",
        "submit fewer lanes at once",
    ),
    Known(
        "conflicting_memory_flags",
        r"(--mem|_MEM_PER_)\S*.*mutually exclusive|mutually exclusive.*--mem",
        "two ways to ask for memory contradict each other",
        "keep one of launchers.mem_gb, launchers.slurm_mem and the --mem options; SLURM_MEM_* and "
        "SBATCH_MEM_* count too",
    ),
    Known(
        "conflicting_options",
        r"mutually exclusive|(can not|cannot|may not|can't) be used (with|together)|incompatible",
        "two options contradict each other",
        "take one of them away",
    ),
    Known(
        "invalid_gres",
        r"\bgres\b|generic resource|\bTRES\b|--gpus|--gpu-",
        "the cluster does not know GPUs asked for in this way",
        "see what it has with `sinfo -o %G`; ask by launchers.slurm_gres or launchers.slurm_gpus_per_node, "
        "with the type it names",
    ),
    Known(
        "invalid_partition",
        r"invalid partition|nodes not in this partition|partition.*(does not exist|not found)",
        "the partition does not exist, or not with these nodes",
        "set launchers.slurm_partition; `sinfo -s` lists them",
    ),
    Known(
        "partition_not_available",
        r"partition (not available|configuration not available|in DOWN)|PartitionDown|PartitionInactive",
        "the partition takes no such job now: it is down, or smaller than the job",
        "set another launchers.slurm_partition, or fewer nodes or less time; `scontrol show partition` says its limits",
    ),
    Known(
        "invalid_account",
        r"invalid account|account.*(expired|invalid|not permitted|does not exist)",
        "the account is wrong, or not for this partition",
        "set launchers.slurm_account; `sacctmgr show associations user=$USER` lists yours",
    ),
    Known(
        "invalid_qos",
        r"invalid qos|requested QOS",
        "the QOS is wrong, or not yours here",
        "set launchers.slurm_qos; `sacctmgr show associations user=$USER format=account,qos` lists yours",
    ),
    Known(
        "submit_limit",
        r"Max\w*(Submit|Jobs)\w*Limit|job submit limit|MaxSubmit|MaxJobCount|submission limit",
        "a limit of your account or QOS is reached (jobs, size or time)",
        "submit fewer lanes, smaller ones or for less time (launchers.timeout_min), or wait until some jobs have ended",
    ),
    Known(
        "accounting_limit",
        r"\b(Assoc|QOS)(Grp|Max|Min)\w+|violates accounting/QOS policy|usage threshold",
        "a limit of your account or QOS is reached",
        "ask for less, or set another launchers.slurm_qos or launchers.slurm_account",
    ),
    Known(
        "invalid_time_limit",
        r"time limit|--time\b|time.?min|invalid time|deadline|TimeLimit",
        "the time limit is not valid, or longer than allowed here",
        "set launchers.timeout_min; `sinfo -o '%P %l'` lists what each partition allows",
    ),
    Known(
        "invalid_reservation",
        r"reservation",
        "the reservation cannot be used",
        "set launchers.slurm_reservation; `scontrol show reservation` lists them with their users and times",
    ),
    Known(
        "invalid_constraint",
        r"feature specification|constraint",
        "no node has the features asked for",
        "set launchers.slurm_constraint; `sinfo -o '%N %f'` lists what nodes have",
    ),
    Known(
        "node_not_available",
        r"Required node not available|Requested nodes are busy|invalid node name|node name specified",
        "a node that was asked for by name is wrong, down or reserved",
        "leave the choice to Slurm, or see `sinfo -R`",
    ),
    Known(
        "node_config_unavailable",
        r"node configuration is not available|more (processors|tasks)\b|(CPU|Node|"
        r"Task) count specification invalid|memory (specification|required)|Invalid (node count|memory|"
        r"core)|--mem(-per-\w+)? specification|Job size specification|number of (nodes|tasks|cpus)",
        "no node of the partition has what the job asks for (GPUs, CPUs or memory)",
        "ask for less: launchers.gpus_per_node, launchers.cpus_per_task, launchers.mem_gb; `sinfo -o '%n %c "
        "%m %G'` lists what nodes have",
    ),
    Known(
        "not_permitted",
        r"permission denied|not permitted|not allowed|access denied|Invalid user id|Invalid group id|"
        r"User account",
        "you may not submit this here",
        "set another launchers.slurm_partition or launchers.slurm_account, or ask the site",
    ),
    Known(
        "invalid_dependency",
        r"dependency",
        "the job depends on one that does not exist",
        "take the dependency away",
    ),
    Known(
        "invalid_license",
        r"licen[sc]e",
        "the licence is not known here",
        "`scontrol show licenses` lists them",
    ),
    Known(
        "bad_script",
        r"batch script|Pathname of a file.*too long|Unable to open file|DOS line breaks|script.*(empty|"
        r"too large)",
        "the script cannot be submitted",
        "look at it: interlace plan launchers=slurm prints it (launchers.slurm_setup are its own lines)",
    ),
    Known(
        "invalid_value",
        r"Invalid (--)?[\w-]+ (specification|argument|value)|Invalid --|invalid (switch|cluster|wckey|mail|"
        r"priority|distribution)|invalid number",
        "a value of an option is not valid",
        "correct it; `man sbatch` has its form",
    ),
)
"""In order: the first that matches a line names it, so what says more stands before what says less."""
